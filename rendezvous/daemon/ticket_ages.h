// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The age of the oldest of many outstanding tickets. Tickets that were added within 50 ms share one
// entry, so that many tickets cost little.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "proto/clock.h"

namespace cpprun {

class TicketAges {
 public:
  // `ticket` was issued now. Tickets must increase.
  void add(std::uint64_t ticket, TimePoint now) {
    last_ = ticket;
    if (!moments_.empty() && now - moments_.back().since < moment) return;
    moments_.push_back({ticket, now});
  }
  // All tickets up to `through` are done.
  void done(std::uint64_t through) {
    while (!moments_.empty() && last_of_front() <= through) moments_.pop_front();
  }
  // This process was suspended for `slept`, and could not receive answers. That time does not
  // count.
  void pass_over_sleep(TimePoint now, Duration slept) {
    for (ClockPair& each : moments_) each.since = std::min(each.since + slept, now);
  }
  // When the oldest outstanding ticket was issued, up to 50 ms too early; nullopt if there is none.
  std::optional<TimePoint> oldest() const {
    return moments_.empty() ? std::nullopt : std::optional(moments_.front().since);
  }

 private:
  static constexpr Duration moment = std::chrono::milliseconds(50);
  struct ClockPair {
    std::uint64_t first = 0;
    TimePoint since;
  };
  std::uint64_t last_of_front() const {
    return moments_.size() > 1 ? moments_[1].first - 1 : last_;
  }

  std::deque<ClockPair> moments_;
  std::uint64_t last_ = 0;
};

}  // namespace cpprun
