// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The HTTP server for status clients (StatusServer) and the queue for its work (Turns).

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/http/session.h"
#include "proto/secure/tls.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/status/bounds.h"
#include "rendezvous/status/status_access.h"
#include "rendezvous/store/memory_accounting.h"

namespace cpprun {

// A queue of work that runs one item at a time, in order. Between two items the event loop polls
// all sockets and handles what is ready, so that other work waits for one item at most.
class Turns : public std::enable_shared_from_this<Turns> {
 public:
  explicit Turns(asio::io_context& context) : context_(context) {}

  // Runs from the event loop, never within this call.
  void add(std::function<void()> work) {
    waiting_.push_back(std::move(work));
    if (!is_posted_) post();
  }

 private:
  // Posted handlers run before the next poll of the sockets, so it posts twice to let one poll
  // pass.
  void post() {
    is_posted_ = true;
    asio::post(context_, [self = shared_from_this()] {
      asio::post(self->context_, [self] { self->next(); });
    });
  }
  void next() {
    const auto work = std::move(waiting_.front());
    waiting_.pop_front();
    is_posted_ = false;
    if (!waiting_.empty()) post();  // before work(), which may throw
    work();                         // may add more
  }

  asio::io_context& context_;
  std::deque<std::function<void()>> waiting_;
  bool is_posted_ = false;  // the first item is scheduled
};

// Tests use shorter ones.
struct StatusLimits {
  std::size_t connections = bounds::status_connections_max;
  Duration request = bounds::status_request_timeout;
  Duration idle = bounds::status_idle_timeout;
  Duration answer = bounds::status_answer_timeout;
  Duration outcome = bounds::outcome_timeout;
  Duration resignation = bounds::status_linger_max;
  std::size_t watchers = bounds::watchers_max;
  std::size_t watcher_bytes = bounds::watcher_bytes_max;
  Duration keep_alive = bounds::watcher_keep_alive;
};

// Serves status clients over connections accepted elsewhere. The number of connections is bounded,
// each has deadlines, and one request is handled per turn of the event loop. Slow or silent clients
// do not keep others out: when all slots are taken, a connection is closed (status_access.h).
// Without clients it causes no wakeups.
class StatusServer {
 public:
  struct Callbacks {
    // For read requests the client's user is looked up only if access depends on it; for a POST
    // always.
    std::function<http::Response(const http::Request&, const StatusClient&)> answer;
    // For the log: the rejected client and the reason.
    std::function<void(std::string)> refused;
    // The credential that a request shows, or why it is invalid; null if there is no secret.
    std::function<Result<Credential>(const http::Request&)> credential = {};
    // Accounts for the memory of connections; null: not counted.
    std::shared_ptr<MemoryAccounting> accounting = {};
  };

  StatusServer(asio::io_context& context, StatusAccess access, Callbacks callbacks,
               const StatusLimits& limits = {});
  ~StatusServer();
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  // A connection from which `first_bytes` were read already. Served from the event loop, never
  // within this call.
  void adopt(FileDescriptor socket, const PeerAddress& peer, std::string first_bytes);
  // A connection over the control socket; the kernel has reported its user.
  void adopt_local(FileDescriptor socket, std::uint32_t user);
  // A connection whose client has proven that it holds the secret, and which `secure` encrypts from
  // then on; null: it is not encrypted.
  void adopt_holder(FileDescriptor socket, Credential credential, const PeerAddress& peer = {},
                    std::unique_ptr<SecureChannel> secure = nullptr, std::string first_bytes = {});
  std::size_t size() const { return visits_.size(); }
  // Sends the delayed reply to the request with that ticket; the request may be gone by now.
  void answer(std::uint64_t ticket, const http::Response& response);

  // Sends an event to all watching clients that may see jobs of that owner; null: to all of them. A
  // client that does not read is disconnected.
  void tell_watchers(const std::string& bytes, const std::string* owner = nullptr);
  // Called when the secrets change: disconnects all clients that used one, so that they
  // authenticate again.
  void end_holders();
  std::size_t watchers() const;

 private:
  class Visit;
  // The peer of a connection, and its name in the log.
  struct Principal {
    PeerAddress peer;
    StatusClient client;
    std::string name;
  };

  StatusClient client_of(int socket, const PeerAddress& peer) const;
  void receive(FileDescriptor socket, const Principal& principal, std::string first_bytes,
               std::unique_ptr<SecureChannel> secure = nullptr);
  std::string objection_to_watching(const std::optional<std::string>& owner) const;
  void keep_alive();
  bool make_room(AccessLevel newcomer);
  void forget(const Visit* visit);

  asio::io_context& context_;
  const StatusAccess access_;
  const Callbacks callbacks_;
  const StatusLimits limits_;
  std::vector<std::shared_ptr<Visit>> visits_;
  std::shared_ptr<Turns> turns_;   // shared by all connections, so that many clients do not add up
  asio::steady_timer keep_alive_;  // runs only while a client watches
  bool keeps_alive_ = false;
};

// The names of this machine in addition to those given; see host_names(). Reads two small files and
// blocks on nothing else.
HostNames own_host_names(HostNames given);

}  // namespace cpprun
