// SPDX-License-Identifier: BSD-3-Clause
// What a store holds, shown to whoever makes another one of it, and the other one that is made.

#include <algorithm>
#include <memory>
#include <utility>

#include "proto/bounds.h"
#include "rendezvous/store/store.h"

namespace cpprun {

void Store::show_shard(std::size_t shard, Viewer& viewer) const {
  values_.visit_shard(shard, [&](const std::string& key, const Stored& stored) {
    viewer.value(key, stored.value);
  });
  queues_.visit_shard(shard, [&](const std::string& key, const Queue& queue) {
    for (const Stored& entry : queue.entries) viewer.queued(key, entry.value);
  });
  waiters_.visit_shard(shard, [&](const std::string& key, const WaitLine& line) {
    for (const Waiters* waiters : {&line.waits, &line.barriers}) {
      for (const Waiter& waiter : *waiters) viewer.waits(waiter.connection, key, waiter.in_barrier);
    }
  });
  watchers_.visit_shard(shard, [&](const std::string& key, const std::shared_ptr<Watchers>& all) {
    for (const ConnectionId watcher : *all) viewer.watches(watcher, key);
  });
  if (shard != 0) return;
  for (const auto& [connection, key] : unclaimed_) viewer.owed(connection, key);
}

void Store::put_value(std::string_view key, std::string_view value) {
  origin_ = {};
  StoredValue made(*ledger_, origin_, value);
  Stored& stored = values_.try_emplace(key).second;
  stored.value = std::move(made);
  charge_for(stored, key);
}

void Store::put_queued(std::string_view key, std::string_view value) {
  Actions nobody_waits;
  origin_ = {};
  on(ConnectionId{}, c10d::QueuePush{.key = key, .value = value}, nobody_waits);
}

void Store::put_waiting(ConnectionId connection, std::string_view key, bool in_barrier) {
  origin_ = {};
  park(connection, key, in_barrier);
}

void Store::put_watching(ConnectionId connection, std::string_view key) {
  Actions answered;
  origin_ = {};
  on(connection, c10d::WatchKey{.key = key}, answered);
}

void Store::put_owed(ConnectionId connection, std::string_view key) {
  unclaimed_.insert_or_assign(connection, std::string(key));
}

}  // namespace cpprun
