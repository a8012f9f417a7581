// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the scheduler or MPI launcher that started this process says of the job, read from its
// environment, and who ends the job. Nothing of it is believed against a flag, a variable or a file
// of the person's.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/text_file.h"
#include "proto/clock.h"
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

// Reading what schedulers write: machines' words, so what is not as expected counts as not said.

// The first of these variables that is a whole number from `lowest`.
std::optional<Said<int>> said_number(const Environment& environment, int lowest,
                                     std::initializer_list<std::string_view> names);

// The first of these variables that is not empty.
std::optional<Said<std::string>> said_text(const Environment& environment,
                                           std::initializer_list<std::string_view> names);

// A port from 20000 to 29999, which no kernel hands out by itself: the same wherever the text is
// the same, and with luck another for another job.
int port_of(std::string_view text);

// "8 tasks on this node (X)".
std::string tasks_here(const Said<int>& tasks);

// "mpirun started 8 tasks on this node (X), and cpprun wants one on each node …: " and the cure.
std::string crowded_text(std::string_view starter, std::string_view tasks, std::string_view cure);

// The hosts of a file with one a line, in its order, each once. PBS names a host for each of its
// processors.
std::vector<std::string> hosts_of_lines(std::string_view text);

// What Slurm's configuration says of how it ends jobs. Source: slurm.conf(5).

// KillWait: the time between TERM and KILL, in whole seconds. Nothing outside of Slurm's jobs, and
// where the configuration is not on this node or leaves it out.
std::optional<Said<std::chrono::seconds>> slurm_kill_wait(const Environment& environment,
                                                          const TextFile& read_file);

// Its value in such a file. Names are written in any case.
std::optional<int> kill_wait_in(std::string_view configuration);

struct SignalSender {
  int pid = 0;             // 0: a process outside of our container; or the kernel
  bool is_kernel = false;  // as for Ctrl-C, and for a terminal that closes
  std::string name = {};   // of that process; empty: it is gone, or cannot be seen
  friend bool operator==(const SignalSender&, const SignalSender&) = default;
};

// "pid 812 (slurmstepd)"; empty where no process of ours has sent it.
std::string to_text(const SignalSender& sender);

// Who ends a job, as far as a signal, its sender and the environment tell: a scheduler, a
// container's runtime, systemd, a terminal that closed.
struct EndedBy {
  std::string who = {};   // a clause: "Slurm ended the job (time limit)"; empty: not known
  std::string hint = {};  // how to have it otherwise
  friend bool operator==(const EndedBy&, const EndedBy&) = default;
};

EndedBy ended_by(int signal, const SignalSender& sender, const Environment& environment,
                 WallTime now);

}  // namespace cpprun
