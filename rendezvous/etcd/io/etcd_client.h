// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Asks etcd: a request at a time in each lane, and each lane on a connection of its own, so that
// what is large or slow in one is in nobody's way in the other. Which member is asked is its
// owner's decision. A user's token is fetched where one is needed, and fetched anew when etcd has
// forgotten it.

#include <array>
#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "rendezvous/etcd/codec.h"
#include "rendezvous/etcd/contest_events.h"
#include "rendezvous/etcd/credentials.h"
#include "rendezvous/etcd/io/etcd_access.h"
#include "rendezvous/etcd/io/etcd_connection.h"

namespace cpprun {

class EtcdClient {
 public:
  using Done = std::function<void(etcd::Heard)>;

  // `tls` as open_tls() gives it.
  EtcdClient(asio::io_context& context, const EtcdAccess& access,
             std::shared_ptr<TlsClientContext> tls);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // Answered once, and not from within; with a failure where nothing has come within `patience`.
  void ask(contest::Lane lane, std::size_t endpoint, etcd::Request request, Duration patience,
           Done done);

 private:
  using steady_clock = std::chrono::steady_clock;
  struct Asked {
    etcd::Request request;
    steady_clock::time_point deadline;
    Done done;
    bool is_second = false;  // asked once more, with a new token
  };
  struct LaneState {
    std::size_t endpoint = 0;
    std::shared_ptr<EtcdConnection> connection;
    std::optional<Asked> asked;
  };

  void go_on(std::size_t lane);
  void post(std::size_t lane, const etcd::Request& request, std::function<void(etcd::Heard)> heard);
  void hear(std::size_t lane, const std::string& used, etcd::Heard heard);
  void finish(std::size_t lane, etcd::Heard heard);

  asio::io_context& context_;
  std::vector<EtcdEndpoint> endpoints_;
  std::shared_ptr<TlsClientContext> tls_;
  std::vector<KnownAddresses> addresses_;
  etcd::Credentials credentials_;
  std::array<LaneState, contest::lanes> lanes_;
};

}  // namespace cpprun
