// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How long MPI's thread (mpi_progress.h) may rest between two looks at the operations under way.
// MPI moves data only while it is called, and it tells nobody that something has come: to look
// without a rest is fastest and takes a processor, to rest is polite and slow. Knows no MPI.

#include <chrono>
#include <cstdint>

namespace cpprun {

// While nothing has begun or ended for less than what the transfer itself may take, none: the data
// is probably on its way. Whoever waits for longer waits for a peer, and then a rest grows with the
// wait, so that it adds a fiftieth to it; `bytes` is what all operations under way move.
std::chrono::microseconds pause_between_looks(std::chrono::microseconds quiet, std::int64_t bytes);

// After a rest, how long to look without one: a transfer that has begun meanwhile gets half of the
// speed at least.
inline constexpr std::chrono::microseconds look_at_least = std::chrono::milliseconds(1);

}  // namespace cpprun
