// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Time as the core sees it: always handed in, never asked for. TimePoint is monotonic and decides;
// WallTime is what people read in reports and is never compared to decide anything.

#include <chrono>

namespace cpprun {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

// For sentences.
inline double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// The same moment by two clocks: the one that decides, which counts from the start of the machine,
// and the one that people read, by which alone a moment outlives that.
struct Moment {
  TimePoint now{};
  WallTime wall{};

  WallTime by_wall(TimePoint moment) const {
    return wall - std::chrono::duration_cast<WallTime::duration>(now - moment);
  }
};

}  // namespace cpprun
