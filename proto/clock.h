// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Time in the core: always passed in, never queried. TimePoint is monotonic and used for decisions.
// WallTime is for reports and must never be used to decide.

#include <chrono>

namespace cpprun {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

// For messages.
inline double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// The same moment on two clocks: the monotonic one, which counts from boot, and the wall clock,
// which is still meaningful after a reboot.
struct ClockPair {
  TimePoint now{};
  WallTime wall{};

  WallTime by_wall(TimePoint moment) const {
    return wall - std::chrono::duration_cast<WallTime::duration>(now - moment);
  }
};

}  // namespace cpprun
