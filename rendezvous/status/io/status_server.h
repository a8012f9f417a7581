// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The server for those who look (StatusServer), and the turns in which its work is done (Turns).

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

#include "proto/bounds.h"
#include "proto/clock.h"
#include "proto/http/session.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/status/status_access.h"
#include "rendezvous/store/ledger.h"

namespace cpprun {

// Pieces of work that nobody else may have to wait for more than once: they are done one at a time,
// in the order in which they came, and between two of them the event loop looks at every socket and
// does what it finds there.
class Turns : public std::enable_shared_from_this<Turns> {
 public:
  explicit Turns(asio::io_context& context) : context_(context) {}

  // Done from the event loop, never from within this call.
  void add(std::function<void()> work) {
    waiting_.push_back(std::move(work));
    if (!is_posted_) post();
  }

 private:
  // What is posted comes before what a look at the sockets finds, so that one look is let pass.
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
    if (!waiting_.empty()) post();  // before the work, which may throw
    work();                         // may add to them
  }

  asio::io_context& context_;
  std::deque<std::function<void()>> waiting_;
  bool is_posted_ = false;  // the first of them has its turn coming
};

// Tests choose shorter ones.
struct StatusLimits {
  std::size_t connections = bounds::status_connections_max;
  Duration request = bounds::status_request_patience;
  Duration idle = bounds::status_idle_patience;
  Duration answer = bounds::status_answer_patience;
  Duration outcome = bounds::outcome_patience;
  Duration farewell = bounds::status_farewell_patience;
  std::size_t watchers = bounds::watchers_max;
  std::size_t watcher_bytes = bounds::watcher_bytes_max;
  Duration keep_alive = bounds::watcher_keep_alive;
};

// Serves whoever looks, over connections that somebody else has accepted: a few at a time, each
// within deadlines, and one request of each between two looks at everything else. Nobody who is
// slow, says nothing or reads nothing keeps the next one out: where there is no room, somebody
// gives way (status_access.h). While nobody looks there is nothing here that could wake anybody up.
class StatusServer {
 public:
  struct Callbacks {
    // Of whoever only looks, who that is is known only where that decides; of a POST, always.
    std::function<http::Response(const http::Request&, const Visitor&)> answer;
    // For the log: who was refused, and why.
    std::function<void(std::string)> refused;
    // What a request shows of a secret, or why that is not good; null: there is no secret here.
    std::function<Result<Credential>(const http::Request&)> credential = {};
    // What connections hold is charged there; null: it is not counted.
    std::shared_ptr<Ledger> ledger = {};
  };

  StatusServer(asio::io_context& context, StatusAccess access, Callbacks callbacks,
               const StatusLimits& limits = {});
  ~StatusServer();
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  // A connection of which these bytes were read already. It is served from the event loop, never
  // from within this call.
  void adopt(FileDescriptor socket, const PeerAddress& peer, std::string first_bytes);
  // One over the socket for tools: the kernel has said whose it is.
  void adopt_local(FileDescriptor socket, std::uint32_t user);
  // One that comes over a connection on which it has proven that it holds the secret.
  void adopt_holder(FileDescriptor socket, Credential credential);
  std::size_t size() const { return visits_.size(); }
  // What was to be answered later, under that number; nobody may wait for it any more.
  void answer(std::uint64_t ticket, const http::Response& response);

  // Those whose answer goes on are told that, unless it is of a job that is hidden from them; no
  // owner: it is everybody's. Whoever does not read is given up.
  void tell_watchers(const std::string& bytes, const std::string* owner = nullptr);
  // The secrets are others now: whoever has come by one of them comes again.
  void end_holders();
  std::size_t watchers() const;

 private:
  class Visit;
  // Who is at the other end, and what the log calls them.
  struct Comer {
    PeerAddress peer;
    Visitor visitor;
    std::string name;
  };

  Visitor visitor_of(int socket, const PeerAddress& peer) const;
  void receive(FileDescriptor socket, const Comer& comer, std::string first_bytes);
  std::string objection_to_watching(const std::optional<std::string>& owner) const;
  void keep_alive();
  bool make_room(Standing newcomer);
  void forget(const Visit* visit);

  asio::io_context& context_;
  const StatusAccess access_;
  const Callbacks callbacks_;
  const StatusLimits limits_;
  std::vector<std::shared_ptr<Visit>> visits_;
  std::shared_ptr<Turns> turns_;   // of all visits: many who look must not add up
  asio::steady_timer keep_alive_;  // runs only while somebody watches
  bool keeps_alive_ = false;
};

// The names of this machine beside those; see host_names(). Reads two small files and waits for
// nothing else.
HostNames own_host_names(HostNames given);

}  // namespace cpprun
