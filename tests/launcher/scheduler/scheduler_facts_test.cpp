// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/scheduler/scheduler_facts.h"

#include <doctest/doctest.h>

#include "tests/launcher/scheduler/files.h"

namespace cpprun::scheduler_facts_test {
namespace {

const Environment slurm = {{"SLURM_JOB_ID", "7"},
                           {"SLURM_STEP_NUM_NODES", "2"},
                           {"SLURM_STEP_NODELIST", "n[1-2]"},
                           {"SLURM_NODEID", "1"},
                           {"SLURM_PROCID", "1"}};

std::string name_of(Environment environment, const Environment& more = {}) {
  environment.insert(more.begin(), more.end());
  const auto facts = scheduler_facts(environment, probe::files());
  return facts ? facts->name : "";
}

TEST_CASE("the innermost launcher is used") {
  CHECK(name_of({}) == "");
  CHECK(name_of(slurm) == "Slurm");
  const Environment mpirun = {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  CHECK(name_of(slurm, mpirun) == "Open MPI");
  // srun --mpi=pmi2
  CHECK(name_of(slurm, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "1"}}) ==
        "Slurm");
  const Environment pals = {{"PALS_NODEID", "0"}, {"PMI_SIZE", "2"}, {"PMI_RANK", "0"}};
  CHECK(name_of(pals, {{"PBS_JOBID", "9"}}) == "PALS");
  CHECK(name_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "1"}}) == "mpiexec");
  CHECK(name_of({{"LSB_JOBID", "5"}, {"LSB_HOSTS", "a b"}, {"LSF_PM_TASKID", "1"}}) == "LSF");
  CHECK(name_of({{"KUBERNETES_SERVICE_HOST", "x"}, {"JOB_COMPLETION_INDEX", "0"}}) == "Kubernetes");
}

TEST_CASE("a cpprun that a worker starts ignores the scheduler") {
  CHECK(name_of(slurm, {{"LOCAL_RANK", "0"}}) == "");
}

}  // namespace
}  // namespace cpprun::scheduler_facts_test
