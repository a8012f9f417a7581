// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The clocks of one simulated machine. The monotonic clock has its own start and runs a little fast
// or slow; the wall clock is wrong by an offset that jumps.

#include "proto/clock.h"

namespace cpprun::sim {

struct MachineClock {
  Duration offset{};          // of the monotonic clock
  int parts_per_million = 0;  // by which it runs fast
  Duration wall_offset{};     // from the true time

  // Changes the rate from that time on: a monotonic clock does not jump.
  void run(int ppm, TimePoint truth) {
    const TimePoint before = local(truth);
    parts_per_million = ppm;
    offset += before - local(truth);
  }
  // Advances while the machine is suspended.
  void pass(Duration time) {
    offset += time;
    wall_offset += time;
  }
  TimePoint local(TimePoint truth) const {
    const Duration since = truth.time_since_epoch();
    return truth + offset + since / 1'000'000 * parts_per_million;
  }
  // The first true time at which the clock shows `local_time` or more.
  TimePoint truth(TimePoint local_time) const {
    TimePoint guess = local_time - offset;
    guess -= guess.time_since_epoch() / 1'000'000 * parts_per_million;
    while (local(guess) < local_time) guess += local_time - local(guess);
    return guess;
  }
  WallTime wall(TimePoint truth) const {
    using std::chrono::microseconds;
    constexpr auto year_2026 = microseconds{1'770'000'000'000'000};
    return WallTime{year_2026 + std::chrono::duration_cast<microseconds>(truth.time_since_epoch() +
                                                                         wall_offset)};
  }
};

}  // namespace cpprun::sim
