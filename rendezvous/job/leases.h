// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whom nothing has been heard from for too long. All leases are equally long, so holders stay
// sorted by when they were last heard: renewing and finding the first to expire are O(1), for ten
// thousand nodes as for two.

#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"

namespace cpprun {

class Leases {
 public:
  explicit Leases(Duration length) : length_(length) {}

  // Starts the holder's lease, or starts it anew.
  void renew(LinkId holder, TimePoint now);
  // The holder is gone, or is not to be watched any more.
  void forget(LinkId holder);
  // The lease goes on under another link, as if nothing had happened.
  void move(LinkId from, LinkId to);

  bool watches(LinkId holder) const { return entries_.contains(holder); }
  // When the holder was last heard; nothing: it is not watched.
  std::optional<TimePoint> heard(LinkId holder) const {
    const auto found = entries_.find(holder);
    return found == entries_.end() ? std::nullopt : std::optional(found->second->heard);
  }
  std::size_t size() const { return entries_.size(); }

  struct Expired {
    LinkId holder;
    TimePoint heard;  // for the last time
    friend bool operator==(const Expired&, const Expired&) = default;
  };

  // Its lease has begun before every other.
  std::optional<Expired> longest_silent() const {
    return by_age_.empty() ? std::nullopt : std::optional(by_age_.front());
  }

  // When `expire` has something to do: twice before the first lease ends, to notice that its owner
  // is awake, and again when it does end.
  std::optional<TimePoint> next_expiry() const;
  // Ends every lease that has run out by `now` and returns the holders, longest silent first. An
  // owner that slept (a stopped process, a starved machine) has not read what they said meanwhile.
  // Then no lease ends for as long as the sleep was longer than the first of them, at least for
  // bounds::coordinator_nap and at most for another lease: nodes may have slept as well.
  std::vector<Expired> expire(TimePoint now);

  Duration length() const { return length_; }

 private:
  using Entry = Expired;
  std::optional<TimePoint> first_end() const;
  Duration look_ahead() const;
  Duration watch() const;

  Duration length_;
  TimePoint awake_at_ = TimePoint::min();  // when expire() was called last
  // Since then it was called so often that its owner has not slept.
  TimePoint awake_since_ = TimePoint::min();
  std::optional<TimePoint> held_until_;  // after a sleep
  int holds_ = 0;                        // in a row
  std::list<Entry> by_age_;              // Invariant: `heard` never decreases from front to back.
  std::unordered_map<LinkId, std::list<Entry>::iterator> entries_;
};

}  // namespace cpprun
