// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/leases.h"

#include <algorithm>
#include <utility>

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

std::optional<TimePoint> Leases::first_end() const {
  if (by_age_.empty()) return std::nullopt;
  const TimePoint end = by_age_.front().heard + length_;
  return held_until_ ? std::max(end, *held_until_) : end;
}

Duration Leases::look_ahead() const {
  return std::min(Duration{bounds::coordinator_blink}, length_ / 4);
}

Duration Leases::watch() const {
  return std::min(Duration{bounds::coordinator_nap}, length_ / 4);
}

std::optional<TimePoint> Leases::next_expiry() const {
  const auto end = first_end();
  if (!end) return std::nullopt;
  for (const Duration ahead : {watch(), look_ahead()}) {
    if (awake_at_ < *end - ahead) return *end - ahead;
  }
  return *end;
}

std::vector<Leases::Expired> Leases::expire(TimePoint now) {
  const TimePoint was_awake = std::exchange(awake_at_, now);
  if (was_awake < now - watch()) awake_since_ = now;
  const auto end = first_end();
  if (!end || now < *end) {
    if (held_until_ && *held_until_ <= now) {  // Whoever was thought to be silent has spoken.
      held_until_.reset();
      holds_ = 0;
    }
    return {};
  }
  const bool late = now - *end > bounds::coordinator_blink;
  // A sleep that ended a moment ago leaves the holders no time to be heard, either.
  const bool just_woke = awake_since_ > *end - watch() + look_ahead();
  const bool slept = late || just_woke || was_awake < *end - 2 * look_ahead();
  // Not for ever: a machine that is always late must still give up the dead.
  if (slept && holds_ < bounds::coordinator_naps_max) {
    // Others may have slept as well, and wake later: they have as long as this sleep has taken, and
    // no longer than a lease.
    const Duration nap = bounds::coordinator_nap;
    held_until_ = now + (holds_ == 0 ? std::clamp(now - *end, nap, std::max(nap, length_)) : nap);
    ++holds_;
    return {};
  }
  held_until_.reset();
  holds_ = 0;
  std::vector<Expired> gone;
  while (!by_age_.empty() && by_age_.front().heard + length_ <= now) {
    gone.push_back(by_age_.front());
    forget(by_age_.front().holder);
  }
  return gone;
}

}  // namespace cpprun
