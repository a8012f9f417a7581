// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the scheduler or MPI launcher that started this process reports about the job, read from the
// environment, and which program ended the job. The user's flags, variables and files override it.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/environment.h"

namespace cpprun {

// A value and its source: "SLURM_NODEID".
template <class T>
struct Said {
  T value{};
  std::string source;
  friend bool operator==(const Said&, const Said&) = default;
};

struct SchedulerFacts {
  std::string name;  // the scheduler's name, for messages
  std::optional<Said<int>> nodes;
  std::optional<Said<int>> node_rank;       // from 0; needs a known number of nodes
  std::optional<Said<std::string>> master;  // a host of the job
  bool master_is_first = true;              // it is the host of node 0
  std::optional<Said<int>> port;            // same on all nodes, rarely shared by two jobs
  std::optional<Said<std::string>> job;     // the job's id
  std::optional<Said<int>> gpus;            // of this task
  // Why there may be no node of the job at `master`; empty if there is one.
  std::string doubt = {};
  // Why `master` is not known, with a hint; empty if there is nothing to add.
  std::string no_master = {};
  // Task layouts that cpprun cannot run.
  std::vector<std::string> diagnostics = {};
  // Printed if the job has, or may have, several nodes.
  std::vector<std::string> notes = {};
  friend bool operator==(const SchedulerFacts&, const SchedulerFacts&) = default;
};

// nullopt if no scheduler started this process, or if a launcher that it started did: the
// environment of a job's worker says nothing about nodes.
std::optional<SchedulerFacts> scheduler_facts(const Environment& environment,
                                              const TextFile& read_file);

// The facts from one scheduler each; nullopt if it did not start this process.
std::optional<SchedulerFacts> slurm_facts(const Environment& environment);
std::optional<SchedulerFacts> open_mpi_facts(const Environment& environment);
// The mpiexec of MPICH and Intel MPI.
std::optional<SchedulerFacts> hydra_facts(const Environment& environment,
                                          const TextFile& read_file);
// PBS with tasks started by HPE's PALS (mpiexec) or pbsdsh.
std::optional<SchedulerFacts> pbs_facts(const Environment& environment, const TextFile& read_file);
// LSF with tasks started by jsrun or blaunch.
std::optional<SchedulerFacts> lsf_facts(const Environment& environment);
// Kubernetes: indexed Jobs, JobSets, and Kubeflow's PyTorchJob.
std::optional<SchedulerFacts> kubernetes_facts(const Environment& environment,
                                               const TextFile& read_file);

// Helpers for values written by schedulers. A value with unexpected contents is treated as missing.

// The first of these variables that is a whole number of at least `lowest`.
std::optional<Said<int>> said_number(const Environment& environment, int lowest,
                                     std::initializer_list<std::string_view> names);

// The first of these variables that is not empty.
std::optional<Said<std::string>> said_text(const Environment& environment,
                                           std::initializer_list<std::string_view> names);

// A port from 20000 to 29999, which is below the kernel's default range of ephemeral ports. It is a
// hash of the text: the same for equal texts, usually different for other jobs.
int port_of(std::string_view text);

// "8 tasks on this node (X)".
std::string tasks_here(const Said<int>& tasks);

// "mpirun started 8 tasks on this node (X), but cpprun must run once per node …", with the hint.
std::string crowded_text(std::string_view starter, std::string_view tasks, std::string_view hint);

// The hosts of a file with one per line, in order and without duplicates. PBS repeats a host for
// each of its CPUs.
std::vector<std::string> hosts_of_lines(std::string_view text);

// How Slurm is configured to end jobs. Source: slurm.conf(5).

// KillWait: the time between SIGTERM and SIGKILL, in whole seconds. nullopt outside of Slurm jobs,
// and if this node's configuration is missing or does not set it.
std::optional<Said<std::chrono::seconds>> slurm_kill_wait(const Environment& environment,
                                                          const TextFile& read_file);

// The value of KillWait in such a file. Names are case-insensitive.
std::optional<int> kill_wait_in(std::string_view configuration);

struct SignalSender {
  int pid = 0;             // 0: the kernel, or a process outside of our container
  bool is_kernel = false;  // e.g. for Ctrl-C, or when the terminal closes
  std::string name = {};   // of that process; empty: it has exited or is not visible
  friend bool operator==(const SignalSender&, const SignalSender&) = default;
};

// "pid 812 (slurmstepd)"; empty if the sender is not a visible process.
std::string to_text(const SignalSender& sender);

// What ended a job, inferred from the signal, its sender and the environment: a scheduler, a
// container runtime, systemd, or a terminal that closed.
struct EndedBy {
  std::string who = {};   // a clause: "Slurm ended the job (time limit)"; empty: unknown
  std::string hint = {};  // how to avoid it
  friend bool operator==(const EndedBy&, const EndedBy&) = default;
};

EndedBy ended_by(int signal, const SignalSender& sender, const Environment& environment,
                 WallTime now);

}  // namespace cpprun
