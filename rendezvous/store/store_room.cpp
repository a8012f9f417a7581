// SPDX-License-Identifier: BSD-3-Clause
// Whether there is room for what a request would add to the store.

#include <span>
#include <string>

#include "proto/bounds.h"
#include "proto/machine.h"
#include "rendezvous/store/store.h"

namespace cpprun {

std::string Store::objection_to(const c10d::Request& request) const {
  if (takes_all_) return {};
  // What came in memory that is kept is in the books already.
  const auto size_of = [this](std::string_view value) {
    return origin_.memory && value.size() >= bounds::store_bulk_bytes_min ? 0 : value.size();
  };
  const auto of_key = [this](std::string_view key, std::size_t bytes) {
    // The usual case, which costs no look at the store.
    if (ledger_->has_room(origin_.account, bytes + key.size() + bounds::store_entry_bytes, 1)) {
      return std::string();
    }
    const StoredValue* old = value_of(key);
    if (old != nullptr && bytes <= old->size()) return std::string();
    return ledger_->objection(origin_.account, bytes + key.size() + bounds::store_entry_bytes,
                              old == nullptr ? 1 : 0);
  };
  const auto of_keys = [this](std::span<const c10d::Bytes> keys) {
    std::size_t bytes = 0;
    for (const c10d::Bytes key : keys) bytes += key.size() + bounds::store_entry_bytes;
    return ledger_->objection(origin_.account, bytes);
  };
  return std::visit(
      Overloaded{
          [&](const c10d::Set& set) { return of_key(set.key, size_of(set.value)); },
          [&](const c10d::CompareSet& set) {
            return of_key(set.key, size_of(set.expected) + size_of(set.desired));
          },
          [&](const c10d::Add& add) { return of_key(add.key, bounds::store_number_digits_max); },
          [&](const c10d::Append& append) { return of_key(append.key, size_of(append.value)); },
          [&](const c10d::QueuePush& push) { return of_key(push.key, size_of(push.value)); },
          [&](const c10d::Barrier& barrier) {
            return of_key(barrier.key, bounds::store_number_digits_max);
          },
          [&](const c10d::Wait& wait) { return of_keys(wait.keys); },
          [&](const c10d::MultiSet& set) {
            std::size_t bytes = 0;
            for (const c10d::KeyValue& entry : set.entries) {
              bytes += entry.key.size() + size_of(entry.value) + bounds::store_entry_bytes;
            }
            return ledger_->objection(origin_.account, bytes, set.entries.size());
          },
          [&](const c10d::WatchKey& watch) {
            return ledger_->objection(origin_.account,
                                      watch.key.size() + bounds::store_entry_bytes);
          },
          // What asks and what takes away adds nothing.
          [](const auto&) { return std::string(); },
      },
      request);
}

}  // namespace cpprun
