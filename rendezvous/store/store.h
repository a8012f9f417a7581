// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The key-value store on which the workers of a job meet: keys, values, queues, barriers and the
// waits that are parked until a key appears. It is a plain value that knows no socket and no clock.
// A request goes in, what has to be said and to whom comes out, in order. The semantics are those
// of PyTorch's TCPStore, corner cases included, without the faults listed in docs/protocol.md §1.

#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "proto/ids.h"
#include "rendezvous/store/key_map.h"
#include "rendezvous/store/ledger.h"
#include "rendezvous/store/stored_value.h"

namespace cpprun {

// Say this to that connection.
struct Answer {
  ConnectionId to;
  c10d::Reply reply;
  friend bool operator==(const Answer&, const Answer&) = default;
};
// Say this to that connection: a reply that refers to values of the store instead of copying them.
struct Parcel {
  ConnectionId to;
  Pieces reply;
  friend bool operator==(const Parcel&, const Parcel&) = default;
};
// End that connection; `reason` completes "closed: ".
struct Drop {
  ConnectionId connection;
  std::string reason;
  friend bool operator==(const Drop&, const Drop&) = default;
};
using Action = std::variant<Answer, Parcel, Drop>;
// What a request leads to, in order. The views inside are good until the store is touched again.
using Actions = std::vector<Action>;

// How far a LIST_KEYS has come that is answered in several turns.
struct KeyListing {
  std::size_t shards_seen = 0;
  std::int64_t key_count = 0;
};

class Store {
 public:
  Store() : Store(std::make_shared<Ledger>()) {}
  // What it holds is kept in those books.
  explicit Store(std::shared_ptr<Ledger> ledger);
  ~Store();
  // A parked wait points at the keys it waits for, so a store moves but is not copied.
  Store(Store&&) = default;
  Store& operator=(Store&& other) noexcept;

  // From now on in those books. Only while it is empty, as a store is that nobody has used yet.
  void keep_books_in(const std::shared_ptr<Ledger>& ledger);

  // Carries one request out, whole, and appends what follows from it to `actions`. What it stores
  // is charged to `origin`.
  void apply(ConnectionId from, const c10d::Request& request, Actions& actions,
             Origin origin = Origin());

  // The same for a request of very many keys, in parts of the caller's choice; nothing else is
  // asked meanwhile. It begins with what apply() does first, and answers why it must not go on;
  // empty: it may. A MULTI_SET goes on with apply() itself.
  std::string begin_parts(ConnectionId from, const c10d::Request& request, const Origin& origin,
                          Actions& actions);
  bool has_all(std::span<const c10d::Bytes> keys) const;
  // Stops as soon as that is more than a reply may have, which the reader of it notices.
  void show_part(std::span<const c10d::Bytes> keys, Pieces& reply) const;
  void wait_for_part(ConnectionId from, std::span<const c10d::Bytes> keys, const Origin& origin);
  bool is_waiting(ConnectionId connection) const { return parked_.contains(connection); }

  // One request may concern more connections than one turn can tell, and a client that leaves may
  // leave more behind than one turn can tidy up. What is left over is gone on with, about so many
  // connections and keys at a time, before anything else is asked.
  bool has_unfinished() const { return !fan_outs_.empty() || !departures_.empty(); }
  void go_on(std::size_t steps, Actions& actions);
  // Before the next request of a client that waits for very many keys: the wait is over, which is
  // tidied up by go_on(). False: apply() ends that wait, if there is one, as it goes along.
  bool abandon_large_wait(ConnectionId from);
  // The same for any wait, at once.
  void abandon_wait(ConnectionId from, Actions& actions);

  // Appends some of the keys, as the reply shows them, and answers whether those were the last. A
  // key that is there from the beginning to the end is listed once.
  bool list_some(KeyListing& listing, std::size_t keys_max, std::string& out) const;

  // That connection is gone: its waits and watches with it. Somebody else may be told of a queue
  // entry that the departed was woken for and did not take.
  void forget(ConnectionId connection, Actions& actions);

  // An empty store, as for a new round. Whoever waits is not answered: their connections end too.
  void clear();

  // --- another store that is to be like this one ---
  // What it holds, a shard of so many at a time; nothing is asked meanwhile.
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
  // What is told here is put there, in the same order; in the books of nobody in particular.
  void put_value(std::string_view key, std::string_view value);
  void put_queued(std::string_view key, std::string_view value);
  void put_waiting(ConnectionId connection, std::string_view key, bool in_barrier);
  void put_watching(ConnectionId connection, std::string_view key);
  void put_owed(ConnectionId connection, std::string_view key);
  // What another store has taken is taken here, whatever the books say; or no longer.
  void take_all(bool takes_all) { takes_all_ = takes_all; }

  // For tools and tests.
  std::size_t key_count() const { return values_.size(); }
  std::size_t parked_count() const { return parked_.size(); }

 private:
  // What a key stands for, and who pays for it.
  struct Stored {
    StoredValue value;
    Charge charge;
    bool free_some(std::size_t& work);
  };
  struct Queue {
    std::deque<Stored> entries;
    Charge charge;
    bool free_some(std::size_t& work);
  };
  struct Watched {
    std::vector<std::string> keys;
    std::vector<Charge> charges;
  };
  class BuriedWatches;

  struct Waiter {
    ConnectionId connection;
    bool in_barrier = false;  // not released by another's arrival, only by the last one's
    std::size_t place = 0;    // index of this line among the places of the connection's wait
  };
  using Waiters = std::list<Waiter>;
  // Who waits for one key, oldest first: those of a WAIT, and those of a BARRIER, whom the next
  // arrival must not have to walk through.
  struct WaitLine {
    Waiters waits;
    Waiters barriers;
    bool is_waking = false;  // one of fan_outs_ has it, and takes it away in the end
    bool empty() const { return waits.empty() && barriers.empty(); }
    bool free_some(std::size_t& work);
  };
  using Line = KeyMap<WaitLine>::Entry;  // entries stay where they are
  struct Place {
    Line* line = nullptr;
    Waiters::iterator at;
  };
  // One parked wait: its place in the line of every key that is still missing.
  struct Parked {
    std::vector<Place> places;
    Charge charge;
    bool is_over = false;  // nobody is to be answered; one of departures_ tidies it up
  };
  using Watchers = std::vector<ConnectionId>;

  // Those who are still to be told of one key.
  struct Waking {
    Line* line = nullptr;
    bool with_barriers = false;
  };
  struct Notice {
    Pieces text;
    std::shared_ptr<const Watchers> watchers;
    std::size_t next = 0;  // of them
  };
  using FanOut = std::variant<Waking, Notice>;
  // Who has left, or has only given up its wait.
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

  // Why what this request would add to the store must not be held; empty: it may.
  std::string objection_to(const c10d::Request& request) const;

  bool exists(std::string_view key) const;  // as a value or as a queue that holds something
  const StoredValue* value_of(std::string_view key) const;
  // The value of that key plus delta; nothing when it is not a number.
  std::optional<std::int64_t> counted(std::string_view key, std::int64_t delta) const;
  static void drop_non_number(ConnectionId from, std::string_view operation, std::string_view key,
                              Actions& actions);
  void store(std::string_view key, std::string_view value, Actions& actions);
  void charge_for(Stored& stored, std::string_view key);
  static void answer_value(ConnectionId to, const StoredValue& value, Actions& actions);
  void notify(c10d::Change change, std::string_view key, const StoredValue& old_value,
              const StoredValue& new_value, Actions& actions);
  bool may_tell_at_once(std::size_t steps);
  static Pieces notice_text(c10d::Change change, std::string_view key, const StoredValue& old_value,
                            const StoredValue& new_value);
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
  void pass_on_unclaimed(ConnectionId connection, Actions& actions);
  Waiters::iterator release(Line& line, Waiters::iterator waiter, Actions& actions);
  void let_go();
  void swap(Store& other) noexcept;

  std::shared_ptr<Ledger> ledger_;  // the first, because what follows is written in it to its end
  KeyMap<Stored> values_;
  KeyMap<Queue> queues_;      // never an empty one
  KeyMap<WaitLine> waiters_;  // never an empty line, except one that is waking
  std::unordered_map<ConnectionId, Parked> parked_;
  KeyMap<std::shared_ptr<Watchers>> watchers_;
  std::unordered_map<ConnectionId, Watched> watched_by_;
  // Who was woken by which queue's push and has not popped since; at most one entry a connection.
  std::unordered_map<ConnectionId, std::string> unclaimed_;
  std::deque<FanOut> fan_outs_;
  std::deque<Departure> departures_;
  bool takes_all_ = false;
  std::size_t told_at_once_ = 0;  // steps that the request being carried out has taken

  Origin origin_;  // of the request that is being carried out
  // What the views of the last actions point at.
  std::vector<c10d::Bytes> listed_;
  std::deque<std::string> retained_;
  std::deque<StoredValue> retained_values_;
};

}  // namespace cpprun
