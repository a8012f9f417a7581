#pragma once
// The key-value store on which the workers of a job meet: keys, values, queues, barriers and the
// waits that are parked until a key appears. It is a plain value that knows no socket and no clock.
// A request goes in, what has to be said and to whom comes out, in order. The semantics are those
// of PyTorch's TCPStore, corner cases included, without the faults listed in docs/protocol.md §1.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "proto/c10d/request.h"
#include "proto/ids.h"

namespace cpprun {

// Say this to that connection.
struct Answer {
  ConnectionId to;
  c10d::Reply reply;
  friend bool operator==(const Answer&, const Answer&) = default;
};
// End that connection; `reason` completes "closed: ".
struct Drop {
  ConnectionId connection;
  std::string reason;
  friend bool operator==(const Drop&, const Drop&) = default;
};
using Effect = std::variant<Answer, Drop>;
// What a request leads to, in order. The views inside are good until the store is touched again.
using Effects = std::vector<Effect>;

class Store {
 public:
  Store() = default;
  // A parked wait points at the keys it waits for, so a store moves but is not copied.
  Store(Store&&) = default;
  Store& operator=(Store&&) = default;

  // Carries one request out, whole, and appends what follows from it to `effects`.
  void apply(ConnectionId from, const c10d::Request& request, Effects& effects);

  // That connection is gone: its waits and watches with it. Somebody else may be told of a queue
  // entry that the departed was woken for and did not take.
  void forget(ConnectionId connection, Effects& effects);

  // An empty store, as for a new round. Whoever waits is not answered: their connections end too.
  void clear();

  // For tools and tests.
  std::size_t key_count() const { return values_.size(); }
  std::size_t parked_count() const { return parked_.size(); }

 private:
  // Lets a map of strings be asked with a view, without a copy of the key.
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  template <class T>
  using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

  // Who waits for one key, oldest first. Connections of a BARRIER and of a WAIT queue up together.
  struct Waiter {
    ConnectionId connection;
    bool in_barrier = false;  // not released by another's arrival, only by the last one's
    std::size_t place = 0;    // index of this line among the places of the connection's wait
  };
  using Waiters = std::list<Waiter>;
  using Line = TextMap<Waiters>::value_type;  // map nodes stay where they are
  struct Place {
    Line* line = nullptr;
    Waiters::iterator at;
  };
  // One parked wait: its place in the line of every key that is still missing.
  using Parked = std::vector<Place>;

  void on(ConnectionId from, const c10d::Validate& request, Effects& effects);
  void on(ConnectionId from, const c10d::Ping& request, Effects& effects);
  void on(ConnectionId from, const c10d::Set& request, Effects& effects);
  void on(ConnectionId from, const c10d::CompareSet& request, Effects& effects);
  void on(ConnectionId from, const c10d::Get& request, Effects& effects);
  void on(ConnectionId from, const c10d::Add& request, Effects& effects);
  void on(ConnectionId from, const c10d::Check& request, Effects& effects);
  void on(ConnectionId from, const c10d::Wait& request, Effects& effects);
  void on(ConnectionId from, const c10d::CancelWait& request, Effects& effects);
  void on(ConnectionId from, const c10d::GetNumKeys& request, Effects& effects);
  void on(ConnectionId from, const c10d::DeleteKey& request, Effects& effects);
  void on(ConnectionId from, const c10d::Append& request, Effects& effects);
  void on(ConnectionId from, const c10d::MultiGet& request, Effects& effects);
  void on(ConnectionId from, const c10d::MultiSet& request, Effects& effects);
  void on(ConnectionId from, const c10d::QueuePush& request, Effects& effects);
  void on(ConnectionId from, const c10d::QueuePop& request, Effects& effects);
  void on(ConnectionId from, const c10d::QueueLen& request, Effects& effects);
  void on(ConnectionId from, const c10d::ListKeys& request, Effects& effects);
  void on(ConnectionId from, const c10d::Barrier& request, Effects& effects);
  void on(ConnectionId from, const c10d::WatchKey& request, Effects& effects);

  bool exists(std::string_view key) const;  // as a value or as a queue that holds something
  std::string_view value_or_empty(std::string_view key) const;
  // The value of that key plus delta; nothing when it is not a number.
  std::optional<std::int64_t> counted(std::string_view key, std::int64_t delta) const;
  static void drop_non_number(ConnectionId from, std::string_view operation, std::string_view key,
                              Effects& effects);
  void store(std::string_view key, std::string_view value, Effects& effects);
  void notify(c10d::Change change, std::string_view key, std::string_view old_value,
              std::string_view new_value, Effects& effects);
  void park(ConnectionId from, std::string_view key, bool in_barrier);
  bool cancel_wait_of(ConnectionId connection);
  void wake_all(std::string_view key, Effects& effects);
  void wake_waits_only(std::string_view key, Effects& effects);
  void wake_one(std::string_view key, Effects& effects);
  void pass_on_unclaimed(ConnectionId connection, Effects& effects);
  Waiters::iterator release(Line& line, Waiters::iterator waiter, Effects& effects);

  TextMap<std::string> values_;
  TextMap<std::deque<std::string>> queues_;  // never an empty one
  TextMap<Waiters> waiters_;                 // never an empty line
  std::unordered_map<ConnectionId, Parked> parked_;
  TextMap<std::vector<ConnectionId>> watchers_;
  std::unordered_map<ConnectionId, std::vector<std::string>> watched_by_;
  // Who was woken by which queue's push and has not popped since; at most one entry a connection.
  std::unordered_map<ConnectionId, std::string> unclaimed_;

  // What the views of the last effects point at.
  std::vector<c10d::Bytes> listed_;
  std::deque<std::string> retained_;
};

}  // namespace cpprun
