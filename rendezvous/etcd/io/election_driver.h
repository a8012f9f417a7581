// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Runs a LeaderElection (ElectionDriver), and a child process that resigns for it when it is killed
// (LeaseGuard).

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "proto/clock.h"
#include "proto/secure/tls.h"
#include "proto/state_machine.h"
#include "rendezvous/etcd/election_events.h"
#include "rendezvous/etcd/election_view.h"
#include "rendezvous/etcd/etcd_request.h"
#include "rendezvous/etcd/io/etcd_client.h"
#include "rendezvous/etcd/leader_election.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/logging.h"

namespace cpprun {

// A child process that resigns for a leader that is killed. The kernel closes its pipe when the
// leader's process is gone. At that point the leader certainly decides nothing any longer, so a
// standby need not wait for the end of the lease. If the host is lost or cut off, so is the guard,
// and the lease expires by itself.
class LeaseGuard {
 public:
  struct Options {
    EtcdAccess access;
    std::shared_ptr<SecureContext> tls;  // from open_tls()
    ElectionKeys keys;
    Duration lease;  // how long it tries
  };
  using Say = std::function<void(LogLevel level, const std::string& sentence)>;

  // Starts the child. If the child exits, that is reported and it is restarted after a growing
  // pause.
  LeaseGuard(asio::io_context& context, HelperProcesses& side, Options options, Say say);
  // Orderly end: the child exits and changes nothing.
  ~LeaseGuard();
  LeaseGuard(const LeaseGuard&) = delete;
  LeaseGuard& operator=(const LeaseGuard&) = delete;

  void keep(const election::Will& will);
  int pid() const { return pid_; }

 private:
  void start();
  void send(const std::string& message);
  void watch();
  void ended(const std::string& why);

  HelperProcesses& side_;
  const Options options_;
  const Say say_;
  asio::posix::stream_descriptor pipe_;
  asio::steady_timer timer_;
  int pid_ = -1;
  std::string will_;  // the last message sent; empty: this process has not led
  Duration pause_{};  // before the next start
  TimePoint started_{};
};

// Connects a LeaderElection to etcd, a timer and its owner.
class ElectionDriver : public Elector {
 public:
  // Nothing happens before start(). `options.endpoints` have to be those of `access`. Without a
  // guard, a killed process holds leadership until its lease expires.
  ElectionDriver(asio::io_context& context, ElectionOptions options, const EtcdAccess& access,
                 std::shared_ptr<SecureContext> tls, Told told,
                 std::unique_ptr<LeaseGuard> guard = nullptr);
  ElectionDriver(const ElectionDriver&) = delete;
  ElectionDriver& operator=(const ElectionDriver&) = delete;

  void start() override;
  void tell(election::Event event) override { driver_.post(std::move(event)); }
  const LeaderElection& election() const { return driver_.machine(); }

 private:
  void perform(const election::Action& action);

  Told told_;
  std::unique_ptr<LeaseGuard> guard_;
  EtcdClient client_;
  MachineTimer timer_;
  Driver<LeaderElection> driver_;
};

}  // namespace cpprun
