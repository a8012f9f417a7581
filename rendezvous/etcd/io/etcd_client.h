// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The client of etcd (EtcdClient), and one connection to a member (EtcdConnection).

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/http/client.h"
#include "proto/result.h"
#include "proto/secure/tls.h"
#include "rendezvous/etcd/codec.h"
#include "rendezvous/etcd/election_events.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

// The TLS context, loaded from the configured files. Null if no endpoint is https; OpenSSL is not
// loaded then.
Result<std::shared_ptr<SecureContext>> open_tls(const EtcdAccess& access);

// The addresses of a host name as last resolved, so that a name server that hangs later does no
// harm.
struct KnownAddresses {
  std::vector<asio::ip::tcp::endpoint> found = {};
  std::size_t next = 0;  // being tried

  // That address does not respond; tries the next. False: none responds, so the name is resolved
  // again.
  bool turn() {
    if (++next < found.size()) return true;
    *this = {};
    return false;
  }
};

// One connection to one member of etcd, reused between requests: HTTP/1.1, with TLS if configured.
// Opened on demand and dropped on any error; the next request opens a new one.
class EtcdConnection : public std::enable_shared_from_this<EtcdConnection> {
 public:
  struct Reply {
    unsigned status = 0;
    std::string body;
  };
  using Heard = tl::expected<Reply, etcd::Failure>;
  // Called once per request, never within ask().
  using Done = std::function<void(Heard)>;

  // `addresses` is used by this connection alone while it exists, and has to outlive it. `tls` is
  // null for http.
  EtcdConnection(asio::io_context& context, EtcdEndpoint endpoint,
                 std::shared_ptr<SecureContext> tls, KnownAddresses& addresses);

  // One request at a time. Fails if there is no reply within `timeout`.
  void ask(std::string bytes, Duration timeout, Done done);
  // No callback runs after this.
  void close();

  const EtcdEndpoint& endpoint() const { return endpoint_; }

 private:
  using tcp = asio::ip::tcp;

  void dial();
  void resolve();
  void connect();
  void establish();
  void say();
  void flush();
  void wait_for_bytes();
  void read();
  Result<void> take(std::string_view bytes);
  void finish(Heard heard);
  void fail(etcd::Failure::Kind kind, std::string why);
  void drop();
  std::string silence() const;
  std::string why_closed() const;

  EtcdEndpoint endpoint_;
  std::shared_ptr<SecureContext> tls_;
  KnownAddresses& addresses_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  std::unique_ptr<SecureChannel> channel_;   // null without TLS
  std::optional<http::ReplyReader> reader_;  // while a reply is expected
  std::string question_;                     // not sent yet
  std::string outbox_;                       // not taken by the socket yet
  Done done_;
  Duration timeout_{};
  bool is_connecting_ = false;  // to the current address
  bool is_connected_ = false;
  bool is_new_ = false;  // opened for this request
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool is_asked_ = false;    // part of the request may have arrived
  std::uint64_t life_ = 0;   // of the socket; events of an earlier one are ignored
  std::uint64_t asked_ = 0;  // counts the requests
};

// Sends requests to etcd, one at a time in each lane. Each lane has its own connection, so that
// large or slow requests in one do not delay the other. The owner chooses the member. The user's
// token is fetched when needed, and again after etcd has forgotten it.
class EtcdClient {
 public:
  using Done = std::function<void(etcd::Heard)>;

  // `tls` comes from open_tls().
  EtcdClient(asio::io_context& context, const EtcdAccess& access,
             std::shared_ptr<SecureContext> tls);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // `done` runs once, never within this call; with a failure if there is no reply within
  // `timeout`.
  void ask(election::Lane lane, std::size_t endpoint, etcd::Request request, Duration timeout,
           Done done);

 private:
  using steady_clock = std::chrono::steady_clock;
  struct Asked {
    etcd::Request request;
    steady_clock::time_point deadline;
    Done done;
    bool is_second = false;  // repeated with a new token
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
  std::shared_ptr<SecureContext> tls_;
  std::vector<KnownAddresses> addresses_;
  etcd::Credentials credentials_;
  std::array<LaneState, election::lanes> lanes_;
};

}  // namespace cpprun
