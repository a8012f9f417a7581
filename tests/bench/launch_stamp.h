// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The record that the worker of the launch benchmark writes at each moment of its life.

#include <cstdint>

namespace cpprun::bench {

enum class ClockPair : std::uint32_t { executed, died };

// Appended to a file in one write, so that workers do not mix.
struct Stamp {
  std::int64_t nanoseconds = 0;  // CLOCK_MONOTONIC, the same for every process of the machine
  std::uint32_t rank = 0;
  ClockPair moment = ClockPair::executed;
  std::int64_t pid = 0;
};

}  // namespace cpprun::bench
