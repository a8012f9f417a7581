// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A Contest with its etcd, its timer and its owner.

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "proto/state_machine.h"
#include "rendezvous/etcd/contest.h"
#include "rendezvous/etcd/contestant.h"
#include "rendezvous/etcd/io/etcd_access.h"
#include "rendezvous/etcd/io/etcd_client.h"
#include "rendezvous/etcd/io/lease_guard.h"
#include "rendezvous/io/asio_loop.h"

namespace cpprun {

class ContestHost : public Contestant {
 public:
  // Nothing happens before start(). `options.endpoints` are those of `access`. Without a guard a
  // process that is killed leads until its lease ends.
  ContestHost(asio::io_context& context, ContestOptions options, const EtcdAccess& access,
              std::shared_ptr<TlsClientContext> tls, Told told,
              std::unique_ptr<LeaseGuard> guard = nullptr);
  ContestHost(const ContestHost&) = delete;
  ContestHost& operator=(const ContestHost&) = delete;

  void start() override;
  void tell(contest::Event event) override { driver_.post(std::move(event)); }
  const Contest& contest() const { return driver_.machine(); }

 private:
  void perform(const contest::Action& action);

  Told told_;
  std::unique_ptr<LeaseGuard> guard_;
  EtcdClient client_;
  MachineTimer timer_;
  Driver<Contest> driver_;
};

}  // namespace cpprun
