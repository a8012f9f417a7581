// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The requests of an asynchronous client: which bytes go to which connection, what a reply means,
// and when a request is done, times out or is cancelled. Without sockets and clocks.
//
// Replies come in the order of the requests, and any request on a connection ends a wait on it. So
// the first connection has all requests that the store answers at once, any number of them at a
// time, and each wait gets one of its own. A wait begins only when the store has answered all that
// was sent before it, so the order of the calls is the order in which they take effect. Protocol:
// docs/protocol.md §1, dialect D.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proto/c10d/codec.h"
#include "proto/clock.h"
#include "rendezvous/byte_buffer.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/client/store_error.h"

namespace cpprun {

using AsyncRequestId = std::uint64_t;  // from 1, in the order of the calls

struct AsyncValue {
  std::optional<std::string> text = {};  // of get, find and compare_set
  std::int64_t number = 0;               // of add: the sum; of delete_key: 1 if the key existed
  friend bool operator==(const AsyncValue&, const AsyncValue&) = default;
};

// What the caller has to do.
namespace async_request {
struct Open {
  std::size_t connection = 0;
};
struct Close {
  std::size_t connection = 0;
};
struct Done {
  AsyncRequestId id = 0;
  StoreResult<AsyncValue> result;
};
}  // namespace async_request

class AsyncRequests {
 public:
  using Id = AsyncRequestId;
  using Action = std::variant<async_request::Open, async_request::Close, async_request::Done>;
  struct Limits {
    std::size_t requests_max = bounds::async_requests_max;
    std::size_t unsent_bytes_max = bounds::async_unsent_bytes_max;
    std::size_t waits_max = bounds::async_waits_max;
    std::size_t idle_max = bounds::async_idle_connections_max;
  };

  // The first connection is to be opened.
  explicit AsyncRequests(std::string key_prefix) : AsyncRequests(std::move(key_prefix), Limits()) {}
  AsyncRequests(std::string key_prefix, const Limits& limits);

  // --- requests: the id, or why it is rejected ---
  // Done when it was sent, as the store does not reply to it.
  StoreResult<Id> set(TimePoint deadline, std::string_view key, std::string_view value);
  // Waits until the key exists.
  StoreResult<Id> get(TimePoint deadline, std::string_view key);
  StoreResult<Id> find(TimePoint deadline, std::string_view key);
  StoreResult<Id> add(TimePoint deadline, std::string_view key, std::int64_t delta);
  StoreResult<Id> compare_set(TimePoint deadline, std::string_view key, std::string_view expected,
                              std::string_view desired);
  StoreResult<Id> delete_key(TimePoint deadline, std::string_view key);
  StoreResult<Id> wait(TimePoint deadline, const std::vector<std::string>& keys);
  StoreResult<Id> barrier(TimePoint deadline, std::string_view key, std::int64_t world_size);
  // It ends with this error. It is not sent from now on; if part of it was, it may take effect.
  // False: it is over already.
  bool cancel(Id id, const StoreError& error);
  // All requests end with this error, as all later ones.
  void end(const StoreError& error);

  // --- connections, by number ---
  void opened(std::size_t connection);
  // It could not be opened, or has ended; it is closed.
  void lost(std::size_t connection, const StoreError& error);
  std::string_view unsent(std::size_t connection);
  void sent(std::size_t connection, std::size_t count);
  // Room for the next bytes.
  std::span<char> room(std::size_t connection);
  void received(std::size_t connection, std::size_t count);

  // --- time ---
  void advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  // In order; they are returned once.
  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }
  std::size_t in_progress() const { return operations_.size(); }
  std::size_t waits_without_connection() const { return without_connection_.size(); }
  // Why every further request fails.
  const std::optional<StoreError>& broken() const { return broken_; }
  // Why there is no connection yet, for the texts of requests that time out.
  void set_problem(std::string problem) { problem_ = std::move(problem); }

 private:
  enum class Kind { set, get, find, add, compare_set, delete_key, wait, barrier };
  struct Operation {
    Kind kind{};
    std::vector<std::string> keys{};  // with the prefix
    std::int64_t world_size = 0;
    TimePoint deadline;
    bool exists = false;         // what the last CHECK of get and find found
    int empty_looks = 0;         // how often in a row they got an empty value
    bool is_pending = false;     // a wait beyond the limit
    std::size_t connection = 0;  // on which it waits; 0: it does not
  };
  // A reply that is to come on the first connection.
  struct Owed {
    enum class Part { result, exists, value, all_exist, fence };
    Id id = 0;  // perhaps that of an operation that is over
    Part part{};
    c10d::Expected expected;
  };
  // A request of which some bytes are in the outbox of the first connection.
  struct Unsent {
    Owed owed;
    std::uint64_t begin = 0;  // in bytes of that connection, ever
    std::uint64_t end = 0;
    bool has_begun = false;  // some were sent
  };
  struct Connection {
    enum class State { closed, opening, open };
    State state = State::closed;
    ByteBuffer outbox;
    ByteBuffer inbox;
    std::size_t needed = 1;  // bytes of the inbox before decoding makes sense
    c10d::ReplyDecoder decoder;
    // Of all but the first:
    Id waiting = 0;              // 0: idle
    bool has_begun = false;      // some bytes of the wait were sent
    bool is_cancelling = false;  // it is idle when the reply to CANCEL_WAIT has come
  };
  using Operations = std::map<Id, Operation>;

  std::string full(std::string_view key) const { return key_prefix_ + std::string(key); }
  StoreResult<Id> begin(Operation operation, const c10d::Request& request);
  // Queues a request on the first connection.
  void ask(Id id, Owed::Part part, const c10d::Request& request);
  void look(Id id, const Operation& operation);
  // Drops what no operation needs and was not begun.
  void drop_unsent();
  void begin_wait(Id id);
  void take(std::size_t connection, Id id);
  void leave(std::size_t connection);
  void free(std::size_t connection);
  void close(std::size_t connection);
  void end_connection(std::size_t connection, const StoreError& error);
  void answer(const Owed& owed, const c10d::Reply& reply);
  bool read_main(Connection& main);
  void waited(std::size_t connection, bool cancelled);
  void finish(Operations::iterator at, StoreResult<AsyncValue> result);
  StoreError timed_out(const Operation& operation) const;

  const std::string key_prefix_;
  const Limits limits_;
  Id last_id_ = 0;
  Operations operations_;
  std::set<std::pair<TimePoint, Id>> deadlines_;  // of all operations
  // The first exists always; the others are added when they are needed, and their numbers reused.
  std::vector<std::unique_ptr<Connection>> connections_;
  std::deque<Owed> owed_;
  std::deque<Unsent> unsent_;
  bool has_dead_unsent_ = false;    // some of them perhaps belong to operations that are over
  std::uint64_t queued_bytes_ = 0;  // on the first connection, ever
  std::uint64_t sent_bytes_ = 0;
  std::set<Id> without_connection_;  // waits beyond the limit
  std::vector<Action> actions_;
  std::optional<StoreError> broken_;
  std::string problem_;
};

}  // namespace cpprun
