// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Rules for the keys of a store that begin with certain prefixes: limits of their own, and leases,
// with which a key is gone when the client that has set it is gone, or does not set it again in
// time. The clients need not know of it: what they send is that of any store.
//
// The store asks before it accepts a request, and reports what has changed. A key whose lease has
// ended is not removed here: the owner of the store deletes it by requests of its own, for which it
// gets ended keys one after the other. If another client sets such a key first, it stays.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "proto/c10d/request.h"
#include "proto/clock.h"
#include "proto/rank.h"
#include "proto/result.h"
#include "rendezvous/store/key_map.h"

namespace cpprun {

struct StoreNamespace {
  static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
  std::string prefix;              // of the keys as the store has them
  std::uint64_t keys_max = none;   // values, and queues that are not empty
  std::uint64_t bytes_max = none;  // of keys, values and entries of queues
  // A value is gone when the connection that has set it last is gone, and when it is not set again
  // within this time; 0: no limit. Queues have no leases.
  bool ends_with_client = false;
  Duration lease{};
  bool has_leases() const { return ends_with_client || lease > Duration{}; }
};

class StoreNamespaces {
 public:
  // Fails if a prefix is empty, or begins with another one.
  static Result<StoreNamespaces> of(std::vector<StoreNamespace> spaces);
  StoreNamespaces() = default;

  bool empty() const { return spaces_.empty(); }
  // Whether a key there may end by itself.
  bool has_lease(std::string_view key) const;
  // Whether it ends with the client that has set it last.
  bool ends_with_client(std::string_view key) const;

  // --- for the store ---
  // To be called before there is a key.
  void set_seed(const HashSeed& seed) { entries_ = Entries(seed_ = seed); }
  // Why a namespace must not hold what this request would add; empty if it may. The store asks
  // about a COMPARE_SET only if it would set the value.
  std::string objection(const c10d::Request& request) const;
  // Whether that client may delete the key: the owner of the store, only if its lease has ended.
  bool may_delete(ConnectionId client, std::string_view key) const;
  // The memory for what is kept about a value.
  std::size_t bytes_kept(std::string_view key) const;
  // A value was set to one of that size, or deleted.
  void set(ConnectionId client, std::string_view key, std::size_t bytes);
  void deleted(std::string_view key);
  void pushed(std::string_view key, std::size_t bytes);
  void popped(std::string_view key, std::size_t bytes);
  // The client is gone.
  void left(ConnectionId client);
  void clear();

  // --- for its owner, whose requests come from that client ---
  // What was taken for an earlier owner and is not deleted is taken again.
  void set_owner(ConnectionId owner);
  // To be called before the store is used.
  void advance(TimePoint now) { now_ = now; }
  std::optional<TimePoint> next_deadline() const;
  // While input of clients may wait that renews leases, their times must not count.
  enum class Times { count, do_not_count };
  bool has_ended(Times times = Times::count) const {
    return !gone_.empty() || !again_.empty() || (times == Times::count && is_due());
  }
  // Keys to delete, at most so many. Each is returned once to an owner.
  std::vector<std::string> take_ended(std::size_t keys_max, Times times = Times::count);

 private:
  struct Entry {
    bool has_value = false;
    std::size_t value_bytes = 0;
    std::size_t queued_bytes = 0;
    std::size_t queued = 0;  // entries of its queue
    ConnectionId setter{};
    std::optional<TimePoint> deadline;
    bool has_ended = false;
  };
  struct Space {
    StoreNamespace rules;
    std::uint64_t keys = 0;
    std::uint64_t bytes = 0;
  };
  using Entries = KeyMap<Entry>;
  using Keys = std::set<std::string>;  // without a hash that clients could predict
  struct Growth {
    std::uint64_t keys = 0;
    std::uint64_t bytes = 0;
  };

  // nullopt: the key is in no namespace.
  std::optional<std::size_t> space_of(std::string_view key) const;
  const Entry* entry_of(std::string_view key) const;
  void release_if_empty(Entries::Entry* at);
  bool is_due() const { return !deadlines_.empty() && deadlines_.begin()->first <= now_; }
  void forget_lease(Entries::Entry* at);
  Entries::Entry* next_ended();
  std::string explain(const Space& space, const Growth& growth) const;

  std::vector<Space> spaces_;  // by their prefixes
  Entries entries_;
  // Of values with leases:
  std::unordered_map<ConnectionId, Keys> by_setter_;
  std::set<std::pair<TimePoint, std::string>> deadlines_;
  // Clients that are gone, and the keys that they had. Other clients may have set some since.
  std::deque<std::pair<ConnectionId, Keys>> gone_;
  Keys taken_;  // and not deleted yet
  Keys again_;  // those of them that are taken again
  ConnectionId owner_{};
  TimePoint now_{};
  HashSeed seed_;
};

}  // namespace cpprun
