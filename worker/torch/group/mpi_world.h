// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether MPI's world, MPI_COMM_WORLD, is made of the same processes as the job, and who is who in
// both. Only values: knows neither MPI nor LibTorch.

#include <optional>
#include <string>
#include <vector>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

// What mpirun's variables say, before MPI is asked: an MPI that is started in a process that mpirun
// did not start may wait for ever, or end the process.
struct MpiStart {
  std::optional<int> rank;  // absent: mpirun has not started this process, or says so otherwise
  std::optional<int> size;
  friend bool operator==(const MpiStart&, const MpiStart&) = default;
};
MpiStart mpi_start_of(const Environment& environment);

// Why a job of `world_size` ranks cannot use a world of `mpi_size` processes, with the cure; empty
// if it can.
std::string mpi_world_fault(int mpi_size, int world_size);

// How a rank tells the others which process of MPI's world it is, and back: for each rank of the
// group its rank in MPI's world. Two ranks that are one process of MPI's are refused, as happens
// where each was started by somebody else's mpirun, or below one process of it.
std::string mpi_card(std::optional<int> mpi_rank);
Result<std::vector<std::optional<int>>> mpi_ranks_of(const std::vector<std::string>& cards);

}  // namespace cpprun
