// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Since when the oldest of many tickets has been waited for. Those of one moment are one, so that
// the many cost nothing.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "proto/clock.h"

namespace cpprun {

class TicketAges {
 public:
  // Handed over now; each is greater than those before.
  void add(std::uint64_t ticket, TimePoint now) {
    last_ = ticket;
    if (!moments_.empty() && now - moments_.back().since < moment) return;
    moments_.push_back({ticket, now});
  }
  // Nobody waits for those up to that one any more.
  void done(std::uint64_t through) {
    while (!moments_.empty() && last_of_front() <= through) moments_.pop_front();
  }
  // This process did not run for so long, and could not hear of them.
  void pass_over_sleep(TimePoint now, Duration slept) {
    for (Moment& each : moments_) each.since = std::min(each.since + slept, now);
  }
  // At most a moment too early; nothing: none is waited for.
  std::optional<TimePoint> oldest() const {
    return moments_.empty() ? std::nullopt : std::optional(moments_.front().since);
  }

 private:
  static constexpr Duration moment = std::chrono::milliseconds(50);
  struct Moment {
    std::uint64_t first = 0;
    TimePoint since;
  };
  std::uint64_t last_of_front() const {
    return moments_.size() > 1 ? moments_[1].first - 1 : last_;
  }

  std::deque<Moment> moments_;
  std::uint64_t last_ = 0;
};

}  // namespace cpprun
