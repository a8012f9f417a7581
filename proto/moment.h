// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The same moment by two clocks: the one that decides, which counts from the start of the machine,
// and the one that people read, by which alone a moment outlives that.

#include "proto/clock.h"

namespace cpprun {

struct Moment {
  TimePoint now{};
  WallTime wall{};

  WallTime by_wall(TimePoint moment) const {
    return wall - std::chrono::duration_cast<WallTime::duration>(now - moment);
  }
};

}  // namespace cpprun
