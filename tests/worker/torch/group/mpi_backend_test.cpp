// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_backend.h"

// Before doctest, because LibTorch has a CHECK of its own.
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <doctest/doctest.h>

#include <cstdlib>

#include "worker/torch/group/distributed_error.h"

namespace mpi_backend_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// A rank of two of which mpirun has started only this one.
std::string reason_of_a_job_of_two() {
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  std::string reason = "made";
  try {
    make_mpi_backend(c10::make_intrusive<c10d::HashStore>(), 0, 2,
                     {.world_size = 2, .group = "0", .join = 1s, .collective = 1s});
  } catch (const DistributedError& error) {
    reason = error.what();
  }
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  return reason;
}

}  // namespace

TEST_CASE("without an MPI the backend is missing, and the rejection names an alternative") {
  if (mpi_built()) {
    MESSAGE("skipped: an MPI was found");
    return;
  }
  CHECK(reason_of_a_job_of_two() ==
        "backend mpi is not part of this build, because no MPI was found; use backend gloo");
}

TEST_CASE("a job of processes that mpirun did not start is rejected before MPI is initialized") {
  if (!mpi_built()) {
    MESSAGE("skipped: no MPI was found");
    return;
  }
  CHECK(reason_of_a_job_of_two().starts_with(
      "backend mpi: MPI_COMM_WORLD has 1 process, but the job has 2 ranks: "));
}

}  // namespace mpi_backend_test
