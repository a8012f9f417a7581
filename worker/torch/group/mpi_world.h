// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the mpi backend decides without MPI: whether MPI_COMM_WORLD consists of the processes of the
// job, how the ranks of both correspond, and how often to poll. Works on values: depends on neither
// MPI nor LibTorch.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

// The rank and size that mpirun put into the environment, read before MPI is called. Initialising
// MPI in a process that mpirun did not start may block forever or end the process.
struct MpiStart {
  std::optional<int> rank;  // absent: not started by mpirun, or by one with other variables
  std::optional<int> size;
  friend bool operator==(const MpiStart&, const MpiStart&) = default;
};
MpiStart mpi_start_of(const Environment& environment);

// Why a job of `world_size` ranks cannot use an MPI world of `mpi_size` processes, with a hint.
// Empty if it can.
std::string mpi_world_fault(int mpi_size, int world_size);

// Each rank publishes a card with its rank in MPI's world. mpi_ranks_of() reads the cards: the MPI
// rank of each rank of the group. It fails if two ranks have the same MPI rank. This happens if
// separate mpirun commands started them, or if both run below one process of mpirun.
std::string mpi_card(std::optional<int> mpi_rank);
Result<std::vector<std::optional<int>>> mpi_ranks_of(const std::vector<std::string>& cards);

// How long MPI's thread (mpi_progress.h) may sleep between two polls of the operations under way.
// MPI moves data only while it is called, and does not signal that data has arrived. Polling
// without sleep is fastest but uses a whole processor; sleeping saves it but is slow.
//
// `quiet`: time since an operation last began or ended; `bytes`: what all operations under way
// move. Zero while `quiet` is shorter than the transfer itself may take: the data is probably on
// its way. A longer wait is for a peer: the pause grows with it and adds at most a fiftieth to it.
std::chrono::microseconds pause_between_looks(std::chrono::microseconds quiet, std::int64_t bytes);

// Minimum polling time without a sleep after each pause. A transfer that began during the pause
// gets at least half of its speed.
inline constexpr std::chrono::microseconds look_at_least = std::chrono::milliseconds(1);

}  // namespace cpprun
