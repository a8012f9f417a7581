// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/scheduler/scheduler_facts.h"

#include "proto/worker_contract.h"

namespace cpprun {

std::optional<SchedulerFacts> scheduler_facts(const Environment& environment,
                                              const TextFile& read_file) {
  if (find_variable(environment, contract::local_rank) != nullptr) return std::nullopt;
  // Who stands nearest to this process comes first: mpirun runs inside of a Slurm or PBS job, and
  // its numbers are the tasks', the others those of its daemons.
  if (auto facts = open_mpi_facts(environment)) return facts;
  if (auto facts = slurm_facts(environment)) return facts;
  if (auto facts = lsf_facts(environment)) return facts;
  if (auto facts = pbs_facts(environment, read_file)) return facts;
  if (auto facts = hydra_facts(environment, read_file)) return facts;
  return kubernetes_facts(environment, read_file);
}

}  // namespace cpprun
