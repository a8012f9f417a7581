#include "rendezvous/leases.h"

#include <algorithm>

#include "proto/bounds.h"

namespace cpprun {

void Leases::renew(LinkId holder, TimePoint now) {
  const auto found = entries_.find(holder);
  if (found == entries_.end()) {
    entries_[holder] = by_age_.insert(by_age_.end(), Entry{holder, now});
    return;
  }
  found->second->heard = now;
  by_age_.splice(by_age_.end(), by_age_, found->second);
}

void Leases::forget(LinkId holder) {
  const auto found = entries_.find(holder);
  if (found == entries_.end()) return;
  by_age_.erase(found->second);
  entries_.erase(found);
}

void Leases::move(LinkId from, LinkId to) {
  const auto found = entries_.find(from);
  if (found == entries_.end()) return;
  const auto entry = found->second;
  entry->holder = to;
  entries_.erase(found);
  entries_[to] = entry;
}

std::optional<TimePoint> Leases::next_expiry() const {
  if (by_age_.empty()) return std::nullopt;
  const TimePoint due = by_age_.front().heard + length_;
  return held_until_ ? std::max(due, *held_until_) : due;
}

std::vector<Leases::Expired> Leases::expire(TimePoint now) {
  std::vector<Expired> gone;
  const auto due = next_expiry();
  if (!due || now < *due) return gone;
  // Held once: a machine that is always late must still give up the dead.
  const bool was_held = held_until_ && *due == *held_until_;
  if (now - *due > bounds::keeper_nap && !was_held) {
    held_until_ = now + bounds::keeper_nap;
    return gone;
  }
  held_until_.reset();
  while (!by_age_.empty() && by_age_.front().heard + length_ <= now) {
    gone.push_back(by_age_.front());
    forget(by_age_.front().holder);
  }
  return gone;
}

}  // namespace cpprun
