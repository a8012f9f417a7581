// SPDX-License-Identifier: BSD-3-Clause
// Names of processes are those of /proc/PID/comm, of 15 bytes at most.
#include "launcher/scheduler/ended_by.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>

#include "launcher/scheduler/said.h"
#include "proto/text.h"

namespace cpprun {

namespace {

struct KnownSender {
  std::string_view process;
  std::string_view who;
};

constexpr std::array known_senders = {
    KnownSender{"pbs_mom", "PBS ended the job"},
    KnownSender{"sbatchd", "LSF ended the job"},
    KnownSender{"res", "LSF ended the job"},
    KnownSender{"condor_starter", "HTCondor ended the job"},
    KnownSender{"sge_shepherd", "Grid Engine ended the job"},
    KnownSender{"systemd", "systemd stopped its unit (systemctl stop, shutdown or RuntimeMaxSec)"},
    KnownSender{"earlyoom", "earlyoom ended it (memory was short)"},
    KnownSender{"timeout", "its timeout command ended it"},
    KnownSender{"mpirun", "mpirun ended the job"},
    KnownSender{"orterun", "mpirun ended the job"},
    KnownSender{"orted", "mpirun ended the job"},
    KnownSender{"prterun", "mpirun ended the job"},
    KnownSender{"prted", "mpirun ended the job"},
    KnownSender{"mpiexec", "mpiexec ended the job"},
    KnownSender{"mpiexec.hydra", "mpiexec ended the job"},
    KnownSender{"hydra_pmi_proxy", "mpiexec ended the job"},
};

template <std::size_t N>
bool is_name_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::ranges::find(names, name) != names.end();
}

// Slurm sends TERM when the time is over, and a little later KILL.
bool is_at_time_limit(const Environment& environment, WallTime now) {
  const auto* text = find_variable(environment, "SLURM_JOB_END_TIME");
  const auto seconds = text == nullptr ? std::nullopt : exact_number<long long>(*text);
  if (!seconds) return false;
  const auto end = WallTime{std::chrono::seconds(*seconds)};
  constexpr auto clocks_differ_by = std::chrono::seconds(5);
  return now >= end - clocks_differ_by;
}

EndedBy ended_by_slurm(const Environment& environment, WallTime now) {
  if (!is_at_time_limit(environment, now)) {
    return {.who = "Slurm ended the job (scancel, preemption or a lost node)"};
  }
  return {
      .who = "Slurm ended the job (time limit)",
      .hint = "give the job more time (--time); --preemption-notice=slurm saves before the end"};
}

EndedBy ended_from_outside(const Environment& environment) {
  if (find_variable(environment, "KUBERNETES_SERVICE_HOST") == nullptr) {
    return {.who = "a process outside of this container ended it, as docker stop does"};
  }
  return {.who = "Kubernetes ended the pod (deletion, eviction, preemption or a node drain)"};
}

EndedBy ended_by_hangup(const SignalSender& sender) {
  constexpr std::array<std::string_view, 12> closers = {
      "bash", "sh",  "dash", "zsh",          "fish",         "ksh",
      "tcsh", "csh", "sshd", "sshd-session", "tmux: server", "screen"};
  const bool is_terminal = sender.is_kernel || is_name_of(sender.name, closers);
  return {
      .who = is_terminal ? "its terminal or ssh session closed" : "",
      .hint = "to keep a job running, start it under nohup, setsid, tmux or systemd-run --user"};
}

}  // namespace

std::string to_text(const SignalSender& sender) {
  if (sender.is_kernel || sender.pid == 0) return "";
  return sender.name.empty() ? fmt::format("pid {}, which is gone by now", sender.pid)
                             : fmt::format("pid {} ({})", sender.pid, sender.name);
}

EndedBy ended_by(int signal, const SignalSender& sender, const Environment& environment,
                 WallTime now) {
  if (signal == SIGHUP) return ended_by_hangup(sender);
  if (signal == SIGXCPU && sender.is_kernel) return {.who = "its CPU time limit is used up"};
  if (signal != SIGTERM || sender.is_kernel) return {};
  constexpr std::array<std::string_view, 2> of_slurm = {"slurmstepd", "slurmd"};
  if (is_name_of(sender.name, of_slurm)) return ended_by_slurm(environment, now);
  // What runs as number 1 of a container passes on what the runtime has sent it.
  constexpr std::array<std::string_view, 4> inits = {"tini", "dumb-init", "docker-init",
                                                     "catatonit"};
  if (sender.pid == 0 || is_name_of(sender.name, inits)) return ended_from_outside(environment);
  const auto* found = std::ranges::find(known_senders, sender.name, &KnownSender::process);
  if (found == known_senders.end()) return {};
  return {.who = std::string(found->who)};
}

}  // namespace cpprun
