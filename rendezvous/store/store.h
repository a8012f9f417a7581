// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The key-value store of a job's workers: keys, values, queues, barriers, and waits that are parked
// until a key appears. It is a plain value without sockets and without a clock. A request goes in;
// the replies and their recipients come out, in order. The semantics are those of PyTorch's
// TCPStore, including corner cases, without the faults listed in docs/protocol.md §1.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "proto/c10d/request.h"
#include "proto/rank.h"
#include "rendezvous/store/key_map.h"
#include "rendezvous/store/memory_accounting.h"
#include "rendezvous/store/store_namespaces.h"
#include "rendezvous/store/stored_value.h"

namespace cpprun {

// Send this reply to the connection.
struct Answer {
  ConnectionId to;
  c10d::Reply reply;
  friend bool operator==(const Answer&, const Answer&) = default;
};
// The same, for a reply that references values of the store instead of copying them.
struct SharedReply {
  ConnectionId to;
  IoSlices reply;
  friend bool operator==(const SharedReply&, const SharedReply&) = default;
};
// Close the connection; `reason` completes "closed: ".
struct Disconnect {
  ConnectionId connection;
  std::string reason;
  friend bool operator==(const Disconnect&, const Disconnect&) = default;
};
using Action = std::variant<Answer, SharedReply, Disconnect>;
// The effects of a request, in order. The views inside are valid until the store is used again.
using Actions = std::vector<Action>;

// The progress of a LIST_KEYS that is answered in several turns.
struct KeyListing {
  std::size_t shards_seen = 0;
  std::int64_t key_count = 0;
};

class Store {
 public:
  Store() : Store(std::make_shared<MemoryAccounting>()) {}
  // Books its memory in `accounting`.
  explicit Store(std::shared_ptr<MemoryAccounting> accounting);
  ~Store();
  // A parked wait points at the keys it waits for, so a store can be moved but not copied.
  Store(Store&&) = default;
  Store& operator=(Store&& other) noexcept;

  // Books its memory there from now on. Has an effect only while the store is empty, as before its
  // first use.
  void keep_books_in(const std::shared_ptr<MemoryAccounting>& accounting);

  // Carries out one request completely, and appends its effects to `actions`. What it stores is
  // charged to `origin`.
  void apply(ConnectionId from, const c10d::Request& request, Actions& actions,
             Origin origin = Origin());

  // The same for the most frequent requests (GET, SET, ADD) of short values, as long as they
  // concern no other client, without a list of actions. Appends the encoded reply. Returns false if
  // apply() has to carry out the request; then nothing has changed.
  bool apply_alone(ConnectionId from, const c10d::Request& request, AccountId account,
                   std::string& reply);

  // The same as apply() for a request with very many keys, in parts of the caller's choice. No
  // other request may come in between. begin_parts() does what apply() does first, and returns why
  // the request must not continue; empty if it may. A MULTI_SET continues with apply() itself.
  std::string begin_parts(ConnectionId from, const c10d::Request& request, const Origin& origin,
                          Actions& actions);
  bool has_all(std::span<const c10d::Bytes> keys) const;
  // Stops once the reply is larger than allowed; the caller checks its size.
  void show_part(std::span<const c10d::Bytes> keys, IoSlices& reply) const;
  void wait_for_part(ConnectionId from, std::span<const c10d::Bytes> keys, const Origin& origin);
  bool is_waiting(ConnectionId connection) const { return parked_.contains(connection); }

  // One request may concern more connections than one turn can notify, and a client that leaves may
  // leave more behind than one turn can clean up. go_on() continues with the rest, about `steps`
  // connections and keys at a time, before any other request.
  bool has_unfinished() const { return !fan_outs_.empty() || !departures_.empty(); }
  void go_on(std::size_t steps, Actions& actions);
  // To be called before the next request of a client that waits for very many keys: the wait is
  // over, and go_on() cleans up. Returns false if apply() itself ends that wait, if there is one.
  bool abandon_large_wait(ConnectionId from);
  // The same for any wait, at once.
  void abandon_wait(ConnectionId from, Actions& actions);

  // Appends some of the keys in the format of the reply, and returns whether those were the last. A
  // key that exists the whole time is listed once.
  bool list_some(KeyListing& listing, std::size_t keys_max, std::string& out) const;

  // The connection is gone, and with it its waits and watches. If it was woken for a queue entry
  // and did not take it, another client may be woken.
  void forget(ConnectionId connection, Actions& actions);

  // Empties the store, as for a new round. Waiting clients get no answer: their connections end,
  // too.
  void clear();

  // Null if there is no such key. Valid until the store is used again.
  const StoredValue* value_of(std::string_view key) const;
  // Is called for every change of a value, in order, from within the request that makes it. The
  // value of a key that was deleted is null. Null: no observer.
  using Observer =
      std::function<void(c10d::Change change, std::string_view key, const StoredValue* value)>;
  void observe(Observer observer) { observer_ = std::move(observer); }
  // The rules of namespaces, which must outlive the store. Null: it has none.
  void set_namespaces(StoreNamespaces* namespaces) {
    namespaces_ = namespaces;
    if (namespaces_) namespaces_->set_seed(accounting_->seed());
  }

  // --- copying the store to another process ---
  // Shows the contents, one of shard_count shards at a time. No request may come in between.
  class Viewer {
   public:
    virtual ~Viewer() = default;
    virtual void value(std::string_view key, const StoredValue& value) = 0;
    virtual void queued(std::string_view key, const StoredValue& value) = 0;
    virtual void waits(ConnectionId connection, std::string_view key, bool in_barrier) = 0;
    virtual void watches(ConnectionId connection, std::string_view key) = 0;
    virtual void owed(ConnectionId connection, std::string_view key) = 0;
  };
  static constexpr std::size_t shard_count = KeyMap<StoredValue>::shard_count;
  void show_shard(std::size_t shard, Viewer& viewer) const;
  // Adds what a Viewer was shown, in the same order. Charged to no particular address.
  void put_value(std::string_view key, std::string_view value);
  void put_queued(std::string_view key, std::string_view value);
  void put_waiting(ConnectionId connection, std::string_view key, bool in_barrier);
  void put_watching(ConnectionId connection, std::string_view key);
  void put_owed(ConnectionId connection, std::string_view key);
  // While set, the accounting's limits are ignored, because another store has accepted the same.
  void take_all(bool takes_all) { takes_all_ = takes_all; }

  // For tools and tests.
  std::size_t key_count() const { return values_.size(); }
  std::size_t parked_count() const { return parked_.size(); }
  // A client has stored a key of a process group of PyTorch, in Python or C++, since clear().
  bool has_process_group() const { return has_process_group_; }

 private:
  // The value of a key, and who pays for it.
  struct Stored {
    StoredValue value;
    Reservation charge;
    bool free_some(std::size_t& work);
  };
  struct Queue {
    std::deque<Stored> entries;
    Reservation charge;
    bool free_some(std::size_t& work);
  };
  struct Watched {
    std::vector<std::string> keys;
    std::vector<Reservation> charges;
  };
  class DeferredWatches;

  struct Waiter {
    ConnectionId connection;
    bool in_barrier = false;  // released only by the last arrival, not by every one
    std::size_t place = 0;    // index of this line among the places of the connection's wait
  };
  using Waiters = std::list<Waiter>;
  // The waiters for one key, oldest first. Those of a BARRIER are kept apart from those of a WAIT,
  // so that the next arrival need not walk through them.
  struct WaitLine {
    Waiters waits;
    Waiters barriers;
    bool is_waking = false;  // one of fan_outs_ owns it, and removes it in the end
    bool empty() const { return waits.empty() && barriers.empty(); }
    bool free_some(std::size_t& work);
  };
  using Line = KeyMap<WaitLine>::Entry;  // entries do not move
  struct Position {
    Line* line = nullptr;
    Waiters::iterator at;
  };
  // One parked wait: its place in the line of every key that is still missing.
  struct Parked {
    std::vector<Position> positions;
    Reservation charge;
    bool is_over = false;  // gets no answer; one of departures_ cleans it up
  };
  using Watchers = std::vector<ConnectionId>;

  // The clients that are still to be notified about one key.
  struct Waking {
    Line* line = nullptr;
    bool with_barriers = false;
  };
  struct Notice {
    IoSlices text;
    std::shared_ptr<const Watchers> watchers;
    std::size_t next = 0;  // index into watchers
  };
  using FanOut = std::variant<Waking, Notice>;
  // A client that has left, or has only given up its wait.
  struct Departure {
    ConnectionId connection;
    bool with_watches = false;
  };

  void on(ConnectionId from, const c10d::Validate& request, Actions& actions);
  void on(ConnectionId from, const c10d::Ping& request, Actions& actions);
  void on(ConnectionId from, const c10d::Set& request, Actions& actions);
  void on(ConnectionId from, const c10d::CompareSet& request, Actions& actions);
  void on(ConnectionId from, const c10d::Get& request, Actions& actions);
  void on(ConnectionId from, const c10d::Add& request, Actions& actions);
  void on(ConnectionId from, const c10d::Check& request, Actions& actions);
  void on(ConnectionId from, const c10d::Wait& request, Actions& actions);
  void on(ConnectionId from, const c10d::CancelWait& request, Actions& actions);
  void on(ConnectionId from, const c10d::GetNumKeys& request, Actions& actions);
  void on(ConnectionId from, const c10d::DeleteKey& request, Actions& actions);
  void on(ConnectionId from, const c10d::Append& request, Actions& actions);
  void on(ConnectionId from, const c10d::MultiGet& request, Actions& actions);
  void on(ConnectionId from, const c10d::MultiSet& request, Actions& actions);
  void on(ConnectionId from, const c10d::QueuePush& request, Actions& actions);
  void on(ConnectionId from, const c10d::QueuePop& request, Actions& actions);
  void on(ConnectionId from, const c10d::QueueLen& request, Actions& actions);
  void on(ConnectionId from, const c10d::ListKeys& request, Actions& actions);
  void on(ConnectionId from, const c10d::Barrier& request, Actions& actions);
  void on(ConnectionId from, const c10d::WatchKey& request, Actions& actions);

  // Why the store must not hold what this request would add; empty if it may.
  std::string objection_to(const c10d::Request& request) const;
  // False for a COMPARE_SET with another value than the expected one.
  bool would_change(const c10d::Request& request) const;

  bool exists(std::string_view key) const;  // as a value, or as a queue that is not empty
  // The value of that entry plus delta; nothing if it is not a number. Null: there is no entry yet.
  static std::optional<std::int64_t> counted(const KeyMap<Stored>::Entry* found,
                                             std::int64_t delta);
  static void drop_non_number(ConnectionId from, std::string_view operation, std::string_view key,
                              Actions& actions);
  void store(std::string_view key, std::string_view value, Actions& actions) {
    store(values_.find(key), key, value, actions);
  }
  // `found`: the entry of the key, if there is one.
  Stored& store_unwatched(KeyMap<Stored>::Entry* found, std::string_view key,
                          std::string_view value);
  void store(KeyMap<Stored>::Entry* found, std::string_view key, std::string_view value,
             Actions& actions);
  void charge_for(Stored& stored, std::string_view key);
  void note_process_group(std::string_view key);
  std::size_t bytes_of(const Stored& stored, std::string_view key) const;
  void report(c10d::Change change, std::string_view key, const StoredValue* value);
  static void answer_value(ConnectionId to, const StoredValue& value, Actions& actions);
  void notify(c10d::Change change, std::string_view key, const StoredValue& old_value,
              const StoredValue& new_value, Actions& actions);
  bool may_tell_at_once(std::size_t steps);
  static IoSlices notice_text(c10d::Change change, std::string_view key,
                              const StoredValue& old_value, const StoredValue& new_value);
  void park(ConnectionId from, std::string_view key, bool in_barrier);
  void leave_place(Parked& parked);
  bool cancel_wait_of(ConnectionId connection);
  void wake_all(std::string_view key, Actions& actions);
  void wake_waits_only(std::string_view key, Actions& actions);
  void wake(Waking waking, Actions& actions);
  bool wake_some(const Waking& waking, std::size_t& steps, Actions& actions);
  static bool tell_some(Notice& notice, std::size_t& steps, Actions& actions);
  bool tidy_some(const Departure& departure, std::size_t& steps);
  void unwatch(Watched& watched, ConnectionId connection, std::size_t& steps);
  void wake_one(std::string_view key, Actions& actions);
  void wake_next_waiter(ConnectionId connection, Actions& actions);
  Waiters::iterator release(Line& line, Waiters::iterator waiter, Actions& actions);
  // Releases what the views in the last actions point at.
  void let_go() {
    if (!retained_.empty() || !retained_values_.empty()) clear_retained();
  }
  void clear_retained();
  void swap(Store& other) noexcept;

  // Must be the first: the members below use it until they are destroyed.
  std::shared_ptr<MemoryAccounting> accounting_;
  KeyMap<Stored> values_;
  KeyMap<Queue> queues_;      // never an empty queue
  KeyMap<WaitLine> waiters_;  // a line is empty only while it wakes
  std::unordered_map<ConnectionId, Parked> parked_;
  KeyMap<std::shared_ptr<Watchers>> watchers_;
  std::unordered_map<ConnectionId, Watched> watched_by_;
  // Clients that were woken by a push to a queue and have not popped since; at most one entry for
  // each.
  std::unordered_map<ConnectionId, std::string> unclaimed_;
  std::deque<FanOut> fan_outs_;
  std::deque<Departure> departures_;
  bool takes_all_ = false;
  bool has_process_group_ = false;
  std::size_t told_at_once_ = 0;  // steps that the request being carried out has taken

  // These two stay with this object when it is emptied.
  Observer observer_;
  StoreNamespaces* namespaces_ = nullptr;

  Origin origin_;          // of the request being carried out,
  ConnectionId client_{};  // and its sender
  // What the views in the last actions point at.
  std::vector<c10d::Bytes> listed_;
  std::deque<std::string> retained_;
  std::deque<StoredValue> retained_values_;
};

}  // namespace cpprun
