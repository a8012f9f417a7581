// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_pause.h"

#include <algorithm>

namespace cpprun {
namespace {

using std::chrono::microseconds;
using namespace std::chrono_literals;

// Time of a small message between ranks that share processors with others.
constexpr microseconds small_message = 5ms;
// The speed of a slow network: 100 MB/s.
constexpr std::int64_t bytes_per_microsecond = 100;
constexpr int part_of_the_wait = 50;
constexpr microseconds pause_min = 50us;  // the kernel's timer rounds shorter pauses up
constexpr microseconds pause_max = 1ms;

}  // namespace

microseconds pause_between_looks(microseconds quiet, std::int64_t bytes) {
  const microseconds timeout = small_message + microseconds(bytes / bytes_per_microsecond);
  if (quiet < timeout) return microseconds(0);
  return std::clamp(quiet / part_of_the_wait, pause_min, pause_max);
}

}  // namespace cpprun
