// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether MPI_COMM_WORLD consists of the processes of the job, and how the ranks of both
// correspond. Works on values: depends on neither MPI nor LibTorch.

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

}  // namespace cpprun
