// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_world.h"

#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("a process that mpirun started reads its rank from the environment") {
  CHECK(mpi_start_of({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}}) ==
        MpiStart{.rank = 2, .size = 4});
  CHECK(mpi_start_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}) == MpiStart{.rank = 0, .size = 2});
  CHECK(mpi_start_of({{"RANK", "2"}, {"WORLD_SIZE", "4"}}) == MpiStart{});
  CHECK(mpi_start_of({{"OMPI_COMM_WORLD_RANK", "two"}, {"OMPI_COMM_WORLD_SIZE", "4"}}) ==
        MpiStart{});
}

TEST_CASE("a world whose size differs from the job's is rejected with a hint") {
  CHECK(mpi_world_fault(4, 4) == "");
  CHECK(mpi_world_fault(1, 2) ==
        "backend mpi: MPI_COMM_WORLD has 1 process, but the job has 2 ranks: start every rank with "
        "one mpirun (mpirun -np RANKS PROGRAM --backend mpi), or use backend gloo under cpprun");
  CHECK(mpi_world_fault(4, 1).starts_with(
      "backend mpi: MPI_COMM_WORLD has 4 processes, but the job has 1 rank: "));
}

TEST_CASE("cards map each rank to its process of MPI") {
  CHECK(mpi_card(3) == "3");
  CHECK(mpi_card(std::nullopt) == "-");
  const auto ranks = mpi_ranks_of({"2", "-", "0"});
  REQUIRE(ranks);
  CHECK(*ranks == std::vector<std::optional<int>>{2, std::nullopt, 0});
}

TEST_CASE("two ranks in one process of MPI are named") {
  const auto ranks = mpi_ranks_of({"1", "0", "1"});
  REQUIRE(!ranks);
  CHECK(ranks.error().reason.starts_with(
      "backend mpi: ranks 0 and 2 of the group are both process 1 of MPI_COMM_WORLD: "));
}
