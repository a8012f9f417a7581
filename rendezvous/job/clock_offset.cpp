// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/clock_offset.h"

#include <algorithm>

#include "proto/bounds.h"

namespace cpprun {

void ClockOffset::heard(TimePoint now, link::AgentTime sent, Duration round_trip) {
  if (samples_ == bounds::clock_samples) {
    previous_ = current_;
    current_ = {};
    samples_ = 0;
  }
  ++samples_;
  current_.lag = std::min(current_.lag, now.time_since_epoch() - Duration{sent});
  if (round_trip > Duration{}) current_.trip = std::min(current_.trip, round_trip);
}

std::optional<TimePoint> ClockOffset::by_coordinator(link::AgentTime moment) const {
  const auto known = ahead();
  if (!known) return std::nullopt;
  return TimePoint{Duration{moment} + *known};
}

std::optional<link::AgentTime> ClockOffset::by_agent(TimePoint moment) const {
  const auto known = ahead();
  if (!known) return std::nullopt;
  return std::chrono::duration_cast<link::AgentTime>(moment.time_since_epoch() - *known);
}

// By how much the coordinator's clock is.
std::optional<Duration> ClockOffset::ahead() const {
  const Duration lag = std::min(current_.lag, previous_.lag);
  if (lag == unknown) return std::nullopt;
  const Duration trip = std::min(current_.trip, previous_.trip);
  const Duration one_way = trip == unknown ? Duration{} : trip / 2;
  return lag - one_way;
}

}  // namespace cpprun
