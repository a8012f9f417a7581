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
#include "proto/secure/tls.h"
#include "rendezvous/etcd/codec.h"
#include "rendezvous/etcd/contest_events.h"
#include "rendezvous/etcd/etcd_endpoint.h"
#include "rendezvous/etcd/etcd_request.h"
#include "rendezvous/etcd/io/etcd_access.h"

namespace cpprun {

// The addresses behind a name, as they were found last: a name server that hangs later is in
// nobody's way.
struct KnownAddresses {
  std::vector<asio::ip::tcp::endpoint> found = {};
  std::size_t next = 0;  // the one that is tried

  // That one does not answer. False: none does, and the name may lead elsewhere by now.
  bool turn() {
    if (++next < found.size()) return true;
    *this = {};
    return false;
  }
};

// One connection to one member of etcd, kept from request to request: HTTP/1.1, with TLS where it
// is asked for. It is made when something is to be asked, and let go when anything about it is not
// as it should be; the next question makes another.
class EtcdConnection : public std::enable_shared_from_this<EtcdConnection> {
 public:
  struct Reply {
    unsigned status = 0;
    std::string body;
  };
  using Heard = tl::expected<Reply, etcd::Failure>;
  // Called once for each question, and not from within ask().
  using Done = std::function<void(Heard)>;

  // `addresses` are its own while it lives, and outlive it. `tls` is null for http.
  EtcdConnection(asio::io_context& context, EtcdEndpoint endpoint,
                 std::shared_ptr<TlsClientContext> tls, KnownAddresses& addresses);

  // One question at a time. Nothing within `patience` is an answer, too.
  void ask(std::string bytes, Duration patience, Done done);
  // Nobody is called any more.
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
  std::shared_ptr<TlsClientContext> tls_;
  KnownAddresses& addresses_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  std::unique_ptr<TlsClientChannel> channel_;  // of a connection with TLS
  std::optional<http::ReplyReader> reader_;    // while an answer is waited for
  std::string question_;                       // that is not said yet
  std::string outbox_;                         // that the socket has not taken yet
  Done done_;
  Duration patience_{};
  bool is_connecting_ = false;  // to the address that is tried
  bool is_connected_ = false;
  bool is_new_ = false;  // made for this question
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool is_asked_ = false;    // some of the question may have arrived
  std::uint64_t life_ = 0;   // of the socket: what comes for one before is for nobody
  std::uint64_t asked_ = 0;  // counts the questions
};

// Asks etcd: a request at a time in each lane, and each lane on a connection of its own, so that
// what is large or slow in one is in nobody's way in the other. Which member is asked is its
// owner's decision. A user's token is fetched where one is needed, and fetched anew when etcd has
// forgotten it.
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
