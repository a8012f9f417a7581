// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the scheduler or MPI launcher that started this process says of the job, read from its
// environment. Nothing of it is believed against a flag, a variable or a file of the person's.

#include <optional>
#include <string>
#include <vector>

#include "launcher/text_file.h"
#include "proto/environment.h"

namespace cpprun {

// A value and where it stands: "SLURM_NODEID".
template <class T>
struct Said {
  T value{};
  std::string source;
  friend bool operator==(const Said&, const Said&) = default;
};

struct SchedulerFacts {
  std::string name;  // of the scheduler, for people
  std::optional<Said<int>> nodes;
  std::optional<Said<int>> node_rank;       // from 0, where `nodes` or the person says how many
  std::optional<Said<std::string>> master;  // a host of the job's
  bool master_is_first = true;              // it is the one of node 0
  std::optional<Said<int>> port;            // to meet at: the same on all nodes, seldom two jobs'
  std::optional<Said<std::string>> job;     // its id
  std::optional<Said<int>> gpus;            // of this task
  // Why there may be no node of the job at `master`; empty where there is one.
  std::string doubt = {};
  // Why `master` is not known, and what to do; empty where nothing more can be said.
  std::string no_master = {};
  // What was asked of the scheduler and is no job of ours.
  std::vector<std::string> mistakes = {};
  // Worth a word where the job has several nodes, or might have.
  std::vector<std::string> notes = {};
  friend bool operator==(const SchedulerFacts&, const SchedulerFacts&) = default;
};

// Nothing where no scheduler started this process, or where a launcher did that it started: the
// worker of a job says nothing about the place of a node.
std::optional<SchedulerFacts> scheduler_facts(const Environment& environment,
                                              const TextFile& read_file);

// The same of one of them each; nothing where it is not that one.
std::optional<SchedulerFacts> slurm_facts(const Environment& environment);
std::optional<SchedulerFacts> open_mpi_facts(const Environment& environment);
// MPICH's and Intel MPI's mpiexec.
std::optional<SchedulerFacts> hydra_facts(const Environment& environment,
                                          const TextFile& read_file);
// PBS, where HPE's PALS (mpiexec) or pbsdsh starts the tasks.
std::optional<SchedulerFacts> pbs_facts(const Environment& environment, const TextFile& read_file);
// LSF, where jsrun or blaunch starts the tasks.
std::optional<SchedulerFacts> lsf_facts(const Environment& environment);
// Indexed Jobs, JobSets, and Kubeflow's PyTorchJob.
std::optional<SchedulerFacts> kubernetes_facts(const Environment& environment,
                                               const TextFile& read_file);

}  // namespace cpprun
