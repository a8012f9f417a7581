// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How long MPI's thread (mpi_progress.h) may sleep between two polls of the operations under way.
// MPI moves data only while it is called, and does not signal that data has arrived. Polling
// without sleep is fastest but uses a whole processor; sleeping saves it but is slow. Knows no MPI.

#include <chrono>
#include <cstdint>

namespace cpprun {

// `quiet`: time since an operation last began or ended; `bytes`: what all operations under way
// move. Zero while `quiet` is shorter than the transfer itself may take: the data is probably on
// its way. A longer wait is for a peer: the pause grows with it and adds at most a fiftieth to it.
std::chrono::microseconds pause_between_looks(std::chrono::microseconds quiet, std::int64_t bytes);

// Minimum polling time without a sleep after each pause. A transfer that began during the pause
// gets at least half of its speed.
inline constexpr std::chrono::microseconds look_at_least = std::chrono::milliseconds(1);

}  // namespace cpprun
