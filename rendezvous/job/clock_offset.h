// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The offset between one agent's monotonic clock and the coordinator's. Every heartbeat says when
// it was sent and how long the previous one took there and back. Of many, the fastest is right to
// within half its round trip: congestion only delays, it makes nothing arrive early.
//
// Wall clocks are ignored: they jump, and are seconds apart where nobody maintains them.

#include <limits>
#include <optional>

#include "proto/clock.h"
#include "proto/link/message.h"

namespace cpprun {

class ClockOffset {
 public:
  // A message that was sent then has arrived now. `round_trip` of an earlier one; zero: not known.
  void heard(TimePoint now, link::AgentTime sent, Duration round_trip = {});

  // The same moment by the coordinator's clock; nothing where nothing was heard yet.
  std::optional<TimePoint> by_coordinator(link::AgentTime moment) const;
  // And back: that moment of the coordinator's clock by the agent's.
  std::optional<link::AgentTime> by_agent(TimePoint moment) const;

 private:
  std::optional<Duration> ahead() const;

  static constexpr Duration unknown = Duration::max();
  // The least seen among some messages.
  struct Least {
    Duration lag = unknown;   // arrival by the coordinator's clock - sending by the agent's
    Duration trip = unknown;  // there and back
  };
  // The window slides by halves: what is older than two of them has drifted away.
  Least current_;
  Least previous_;
  int samples_ = 0;  // in current_
};

}  // namespace cpprun
