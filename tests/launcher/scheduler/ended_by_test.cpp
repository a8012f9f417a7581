// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/scheduler/scheduler_facts.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

namespace ended_by_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr WallTime noon{1'800'000'000s};

std::string who(int signal, const SignalSender& sender, const Environment& environment = {}) {
  return ended_by(signal, sender, environment, noon).who;
}

}  // namespace

TEST_CASE("SIGHUP means a closed terminal, with hints to survive it") {
  const auto closed = ended_by(SIGHUP, {.is_kernel = true}, {}, noon);
  CHECK(closed.who == "the terminal or SSH session was closed");
  CHECK(closed.hint ==
        "to keep a job running, start it under nohup, setsid, tmux or systemd-run --user");
  CHECK(who(SIGHUP, {.pid = 7, .name = "bash"}) == closed.who);
  CHECK(who(SIGHUP, {.pid = 7, .name = "kill"}).empty());
  CHECK_FALSE(ended_by(SIGHUP, {.pid = 7, .name = "kill"}, {}, noon).hint.empty());
}

TEST_CASE("SIGTERM from Slurm means its time limit if the time is over") {
  const SignalSender slurm{.pid = 812, .name = "slurmstepd"};
  CHECK(who(SIGTERM, slurm, {{"SLURM_JOB_END_TIME", "1800000002"}}) ==
        "Slurm ended the job (time limit)");
  for (const char* other : {"1800003600", "soon", ""}) {
    CHECK(who(SIGTERM, slurm, {{"SLURM_JOB_END_TIME", other}}) ==
          "Slurm ended the job (scancel, preemption or a lost node)");
  }
}

TEST_CASE("an unknown sender is outside the container, or is Kubernetes") {
  CHECK(who(SIGTERM, {}).starts_with("a process outside this container"));
  const Environment pod = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}};
  CHECK(who(SIGTERM, {}, pod).starts_with("Kubernetes ended the pod"));
  CHECK(who(SIGTERM, {.pid = 1, .name = "tini"}, pod).starts_with("Kubernetes ended the pod"));
}

TEST_CASE("services and launchers are recognised by their process names") {
  CHECK(who(SIGTERM, {.pid = 1, .name = "systemd"}).starts_with("systemd stopped the unit"));
  CHECK(who(SIGTERM, {.pid = 9, .name = "orted"}) == "mpirun ended the job");
  CHECK(who(SIGTERM, {.pid = 9, .name = "timeout"}) == "the timeout command ended the job");
  CHECK(who(SIGTERM, {.pid = 9, .name = "bash"}).empty());
  CHECK(who(SIGTERM, {.pid = 9}).empty());
  CHECK(who(SIGINT, {.is_kernel = true}).empty());  // Ctrl-C needs no explanation
  CHECK(who(SIGXCPU, {.is_kernel = true}) == "the job reached its CPU time limit");
}

TEST_CASE("a sender is printed with its pid and its name") {
  CHECK(to_text(SignalSender{.pid = 812, .name = "slurmstepd"}) == "pid 812 (slurmstepd)");
  CHECK(to_text(SignalSender{.pid = 812}) == "pid 812 (already exited)");
  CHECK(to_text(SignalSender{.is_kernel = true}).empty());
  CHECK(to_text(SignalSender{}).empty());
}

}  // namespace ended_by_test
