// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/store_namespaces.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/link/bounds.h"
#include "proto/state_machine.h"
#include "proto/text.h"
#include "rendezvous/store/bounds.h"

namespace cpprun {

Result<StoreNamespaces> StoreNamespaces::of(std::vector<StoreNamespace> spaces) {
  std::ranges::sort(spaces, {}, &StoreNamespace::prefix);
  if (spaces.size() > bounds::store_namespaces_max) {
    return failure(
        fmt::format("{} namespaces, more than {}", spaces.size(), bounds::store_namespaces_max));
  }
  StoreNamespaces all;
  for (StoreNamespace& space : spaces) {
    if (space.prefix.empty()) return failure("a namespace without a prefix");
    if (!all.spaces_.empty() && space.prefix.starts_with(all.spaces_.back().rules.prefix)) {
      return failure(
          fmt::format("the namespace \"{}\" is within another one, \"{}\"",
                      plain_line(space.prefix, bounds::name_shown_bytes_max),
                      plain_line(all.spaces_.back().rules.prefix, bounds::name_shown_bytes_max)));
    }
    all.spaces_.push_back({.rules = std::move(space)});
  }
  return all;
}

std::optional<std::size_t> StoreNamespaces::space_of(std::string_view key) const {
  // As none is within another, the last prefix that is not greater is the only candidate.
  const auto after = std::ranges::upper_bound(
      spaces_, key, {}, [](const Space& space) { return std::string_view(space.rules.prefix); });
  if (after == spaces_.begin()) return std::nullopt;
  const auto at = std::prev(after);
  if (!key.starts_with(at->rules.prefix)) return std::nullopt;
  return static_cast<std::size_t>(at - spaces_.begin());
}

const StoreNamespaces::Entry* StoreNamespaces::entry_of(std::string_view key) const {
  const auto* const found = entries_.find(key);
  return found == nullptr ? nullptr : &found->second;
}

bool StoreNamespaces::has_lease(std::string_view key) const {
  const auto space = space_of(key);
  return space && spaces_[*space].rules.has_leases();
}

bool StoreNamespaces::ends_with_client(std::string_view key) const {
  const auto space = space_of(key);
  return space && spaces_[*space].rules.ends_with_client;
}

// --- limits --------------------------------------------------------------------------------------

std::string StoreNamespaces::explain(const Space& space, const Growth& growth) const {
  const std::string name = plain_line(space.rules.prefix, bounds::name_shown_bytes_max);
  if (space.keys + growth.keys > space.rules.keys_max) {
    return fmt::format("the namespace \"{}\" would have {} keys, more than {}", name,
                       space.keys + growth.keys, space.rules.keys_max);
  }
  if (space.bytes + growth.bytes > space.rules.bytes_max) {
    return fmt::format("the namespace \"{}\" would hold {} bytes, more than {}", name,
                       space.bytes + growth.bytes, space.rules.bytes_max);
  }
  return {};
}

std::string StoreNamespaces::objection(const c10d::Request& request) const {
  std::map<std::size_t, Growth> growths;
  // A value of that size replaces the old one, if there is one.
  const auto replaced = [&](std::string_view key, std::size_t bytes) {
    const auto space = space_of(key);
    if (!space) return;
    const Entry* const old = entry_of(key);
    Growth& growth = growths[*space];
    if (old == nullptr || !old->has_value) {
      ++growth.keys;
      growth.bytes += key.size() + bytes;
    } else if (bytes > old->value_bytes) {
      growth.bytes += bytes - old->value_bytes;
    }
  };
  const auto added = [&](std::string_view key, std::size_t bytes, bool is_new) {
    const auto space = space_of(key);
    if (!space) return;
    Growth& growth = growths[*space];
    if (is_new) ++growth.keys;
    growth.bytes += bytes + (is_new ? key.size() : 0);
  };
  std::visit(Overloaded{
                 [&](const c10d::Set& set) { replaced(set.key, set.value.size()); },
                 [&](const c10d::CompareSet& set) { replaced(set.key, set.desired.size()); },
                 [&](const c10d::Add& add) { replaced(add.key, bounds::store_number_digits_max); },
                 [&](const c10d::Barrier& barrier) {
                   replaced(barrier.key, bounds::store_number_digits_max);
                 },
                 [&](const c10d::Append& append) {
                   const Entry* const old = entry_of(append.key);
                   added(append.key, append.value.size(), old == nullptr || !old->has_value);
                 },
                 [&](const c10d::QueuePush& push) {
                   const Entry* const old = entry_of(push.key);
                   added(push.key, push.value.size(), old == nullptr || old->queued == 0);
                 },
                 [&](const c10d::MultiSet& set) {
                   std::map<std::string_view, std::size_t> values;  // the last of a key stays
                   for (const c10d::KeyValue& each : set.entries) {
                     values[each.key] = each.value.size();
                   }
                   for (const auto& [key, bytes] : values) replaced(key, bytes);
                 },
                 [](const auto&) {},  // adds nothing
             },
             request);
  for (const auto& [space, growth] : growths) {
    // What only shrinks is accepted even above a limit.
    if (growth.keys == 0 && growth.bytes == 0) continue;
    if (std::string why = explain(spaces_[space], growth); !why.empty()) return why;
  }
  return {};
}

// --- changes -------------------------------------------------------------------------------------

void StoreNamespaces::set(ConnectionId client, std::string_view key, std::size_t bytes) {
  const auto number = space_of(key);
  if (!number) return;
  Space& space = spaces_[*number];
  Entries::Entry* const at = &entries_.try_emplace(key);
  Entry& its = at->second;
  if (!its.has_value) {
    ++space.keys;
    space.bytes += key.size();
  }
  space.bytes = space.bytes - its.value_bytes + bytes;
  its.has_value = true;
  its.value_bytes = bytes;
  if (!space.rules.has_leases()) return;
  forget_lease(at);
  its.setter = client;
  if (space.rules.ends_with_client) by_setter_[client].insert(at->first.text);
  if (space.rules.lease > Duration{}) {
    its.deadline = now_ + space.rules.lease;
    deadlines_.insert({*its.deadline, at->first.text});
  }
}

void StoreNamespaces::deleted(std::string_view key) {
  const auto number = space_of(key);
  Entries::Entry* const at = number ? entries_.find(key) : nullptr;
  if (at == nullptr || !at->second.has_value) return;
  forget_lease(at);
  Space& space = spaces_[*number];
  --space.keys;
  space.bytes -= key.size() + std::exchange(at->second.value_bytes, 0);
  at->second.has_value = false;
  release_if_empty(at);
}

void StoreNamespaces::pushed(std::string_view key, std::size_t bytes) {
  const auto number = space_of(key);
  if (!number) return;
  Entry& its = entries_.try_emplace(key).second;
  Space& space = spaces_[*number];
  if (its.queued++ == 0) {
    ++space.keys;
    space.bytes += key.size();
  }
  its.queued_bytes += bytes;
  space.bytes += bytes;
}

void StoreNamespaces::popped(std::string_view key, std::size_t bytes) {
  const auto number = space_of(key);
  Entries::Entry* const at = number ? entries_.find(key) : nullptr;
  if (at == nullptr) return;
  Space& space = spaces_[*number];
  at->second.queued_bytes -= bytes;
  space.bytes -= bytes;
  if (--at->second.queued > 0) return;
  --space.keys;
  space.bytes -= key.size();
  release_if_empty(at);
}

void StoreNamespaces::release_if_empty(Entries::Entry* at) {
  if (!at->second.has_value && at->second.queued == 0) entries_.erase(at);
}

void StoreNamespaces::clear() {
  entries_ = Entries(seed_);
  by_setter_.clear();
  deadlines_.clear();
  gone_.clear();
  taken_.clear();
  again_.clear();
  for (Space& space : spaces_) space.keys = space.bytes = 0;
}

// --- leases --------------------------------------------------------------------------------------

void StoreNamespaces::forget_lease(Entries::Entry* at) {
  Entry& its = at->second;
  const std::string& key = at->first.text;
  if (const auto keys = by_setter_.find(its.setter); keys != by_setter_.end()) {
    keys->second.erase(key);
    if (keys->second.empty()) by_setter_.erase(keys);
  }
  if (its.deadline) deadlines_.erase({*its.deadline, key});
  its.deadline.reset();
  its.setter = {};
  if (std::exchange(its.has_ended, false)) {
    taken_.erase(key);
    again_.erase(key);
  }
}

void StoreNamespaces::set_owner(ConnectionId owner) {
  owner_ = owner;
  again_.merge(taken_);
}

void StoreNamespaces::left(ConnectionId client) {
  if (auto keys = by_setter_.extract(client)) gone_.emplace_back(client, std::move(keys.mapped()));
}

std::optional<TimePoint> StoreNamespaces::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

// Null: that one has ended otherwise.
StoreNamespaces::Entries::Entry* StoreNamespaces::next_ended() {
  if (!again_.empty()) return entries_.find(*again_.begin());
  if (gone_.empty()) return entries_.find(deadlines_.begin()->second);
  auto& [client, its] = gone_.front();
  Entries::Entry* const at = entries_.find(*its.begin());
  // It may have been deleted since, or set by another client.
  const bool is_its = at != nullptr && at->second.setter == client;
  its.erase(its.begin());
  if (its.empty()) gone_.pop_front();
  return is_its ? at : nullptr;
}

std::vector<std::string> StoreNamespaces::take_ended(std::size_t keys_max, Times times) {
  std::vector<std::string> keys;
  for (; has_ended(times) && keys_max > 0; --keys_max) {
    Entries::Entry* const at = next_ended();
    if (at == nullptr) continue;
    keys.push_back(at->first.text);
    forget_lease(at);
    taken_.insert(keys.back());
    at->second.has_ended = true;
  }
  return keys;
}

std::size_t StoreNamespaces::bytes_kept(std::string_view key) const {
  const auto space = space_of(key);
  if (!space) return 0;
  // The entry; and with a lease, two places where it can be found.
  return (spaces_[*space].rules.has_leases() ? 3 : 1) * (bounds::store_entry_bytes + key.size());
}

bool StoreNamespaces::may_delete(ConnectionId client, std::string_view key) const {
  if (client != owner_) return true;
  const Entry* const its = entry_of(key);
  return its != nullptr && its->has_ended;
}

}  // namespace cpprun
