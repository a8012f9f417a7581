#include "rendezvous/leases.h"

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
  return by_age_.front().heard + length_;
}

std::vector<LinkId> Leases::expire(TimePoint now) {
  std::vector<LinkId> gone;
  while (!by_age_.empty() && by_age_.front().heard + length_ <= now) {
    gone.push_back(by_age_.front().holder);
    forget(by_age_.front().holder);
  }
  return gone;
}

}  // namespace cpprun
