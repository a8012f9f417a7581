// SPDX-License-Identifier: BSD-3-Clause
// Restarting: the time from the death of one worker, or of a whole node, until all nodes have new
// workers. cpprun beside torchrun and beside a launcher that does nothing else, in one run,
// interleaved, medians; prints the tables of docs/performance.md and judges nothing.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>

#include "tests/bench/launch_kit.h"

namespace {

using namespace cpprun::bench;
namespace fs = std::filesystem;

// --- a worker dies -------------------------------------------------------------------------------

struct Shape {
  int nodes = 1;
  int workers = 4;
  const char* goal = "";
};

// From the death of rank 0 to the last worker's second execution.
std::optional<double> death_to_last(const std::string& path) {
  for (const auto& stamp : read_stamps(path)) {
    if (stamp.moment != ClockPair::died) continue;
    const auto last = last_executed(path, milliseconds_of(stamp));
    if (last) return *last - milliseconds_of(stamp);
  }
  return std::nullopt;
}

void restart_once(const Setup& setup, Who who, Shape shape, std::vector<double>& times) {
  fs::remove(setup.stamps);
  // Its static rendezvous does not restart the other nodes at all, hence an endpoint.
  Words options = shape.nodes == 1 ? Words{"--standalone"} : meeting_at(free_port());
  options.push_back("--max-restarts=1");
  if (shape.nodes > 1) options.push_back("--nnodes=" + std::to_string(shape.nodes));
  std::vector<pid_t> pids;
  for (int node = 0; node < shape.nodes; ++node) {
    pids.push_back(start(command(setup, who, shape.workers, options, "fail_once")).pid);
  }
  for (const auto pid : pids) wait_for(pid);
  if (const auto time = death_to_last(setup.stamps)) times.push_back(*time);
}

// Sixteen torchruns import PyTorch for half a minute on two processors.
int rounds_of(const Setup& setup, Who who, Shape shape) {
  if (who != Who::torchrun) return setup.rounds;
  return shape.nodes > 2 ? std::min(setup.peer_rounds, 1) : setup.peer_rounds;
}

void bench_restart(const Setup& setup) {
  std::printf(
      "| restart: death → last respawned, ms | nodes × workers | median | slowest | of |"
      " goal |\n");
  std::printf("| --- | --- | --- | --- | --- | --- |\n");
  for (const Shape shape :
       {Shape{1, 4, "≤ 2 + the workers' own time to die"}, Shape{2, 2, "≤ 10"}, Shape{16, 1, ""}}) {
    std::map<Who, std::vector<double>> times;
    for (int round = 0; round < setup.rounds; ++round) {
      for (const auto who : participants(setup)) {
        if (shape.nodes > 1 && who == Who::bare) continue;
        if (round < rounds_of(setup, who, shape)) restart_once(setup, who, shape, times[who]);
      }
    }
    for (const auto& [who, values] : times) {
      const double slowest = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
      std::printf("| %s | %d × %d | %.2f | %.2f | %zu | %s |\n", name_of(who), shape.nodes,
                  shape.workers, median(values), slowest, values.size(),
                  who == Who::cpprun ? shape.goal : "");
    }
  }
}

// --- a node is lost ------------------------------------------------------------------------------

constexpr double lease_seconds = 3;
constexpr double timeout_seconds = 15;  // afterwards no node comes back

enum class Replacement { none, spare };
// The other nodes' workers: whether their collective waits or fails when its peer is gone.
enum class Survivors { wait, fail };

struct Scene {
  Replacement replacement = Replacement::none;
  Survivors survivors = Survivors::wait;
};

struct Loss {
  std::optional<double> reported_after;  // from the death to the line that reports a lost node
  std::optional<double> resumed_after;
};

// Reads a launcher's output until the workers are back, and notes when it reports a lost node.
Loss watch(const std::string& stamps, std::size_t wanted, int pipe, double died) {
  ::fcntl(pipe, F_SETFL, O_NONBLOCK);
  Loss loss;
  std::string said;
  while (read_stamps(stamps).size() < wanted) {
    if (milliseconds_now() > died + timeout_seconds * 1e3) return loss;
    pollfd readable{.fd = pipe, .events = POLLIN, .revents = 0};
    ::poll(&readable, 1, 1);
    char bytes[4096];
    const ssize_t count = ::read(pipe, bytes, sizeof bytes);
    if (count > 0) said.append(bytes, static_cast<std::size_t>(count));
    if (!loss.reported_after && said.find(" lost") != std::string::npos) {
      loss.reported_after = milliseconds_now() - died;
    }
  }
  if (const auto last = last_executed(stamps, died)) loss.resumed_after = *last - died;
  return loss;
}

// The workers of a torchrun that was killed live on, as children of this program.
void end_orphans() {
  std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  for (pid_t child = 0; children >> child;) end(child);
}

// All executed processes that still run the worker's program.
void end_workers(const Setup& setup) {
  std::error_code gone;
  for (const auto& stamp : read_stamps(setup.stamps)) {
    const auto program = fs::read_symlink("/proc/" + std::to_string(stamp.pid) + "/exe", gone);
    if (!gone && program == fs::canonical(setup.worker)) {
      ::kill(static_cast<pid_t>(stamp.pid), SIGKILL);
    }
  }
}

// Two nodes have met when one of them is the second rank.
bool wait_for_rank(const std::string& stamps, std::uint32_t rank) {
  for (int tries = 0; tries < 6000; ++tries) {
    for (const auto& stamp : read_stamps(stamps)) {
      if (stamp.rank == rank) return true;
    }
    ::poll(nullptr, 0, 10);
  }
  return false;
}

Loss lose_once(const Setup& setup, Who who, Scene scene) {
  fs::remove(setup.stamps);
  Words options = meeting_at(free_port());
  options.push_back(
      "--rdzv-conf=keep_alive_interval=1,keep_alive_max_attempt=3,last_call_timeout=1");
  options.push_back("--max-restarts=1");
  const bool has_spare = scene.replacement == Replacement::spare;
  options.push_back(has_spare ? "--nnodes=2:2" : "--nnodes=1:2");
  const Words node = command(setup, who, 1, options, "hang");
  const Started master = start(node, true);
  // The master must listen before the next node looks for it, or that one would host.
  ::poll(nullptr, 0, who == Who::torchrun ? 3000 : 50);
  const pid_t lost = start(node).pid;
  std::optional<pid_t> spare;
  Loss loss;
  bool is_reaped = false;
  if (wait_for_rank(setup.stamps, 1)) {
    if (has_spare) spare = start(node).pid;
    // A node that came after the settle window restarts the first one; a spare has to settle.
    ::poll(nullptr, 0, who == Who::torchrun ? (has_spare ? 8000 : 2000) : 200);
    const std::size_t before = read_stamps(setup.stamps).size();
    const double died = milliseconds_now();
    ::kill(lost, SIGKILL);
    ::waitpid(lost, nullptr, 0);
    is_reaped = true;
    if (scene.survivors == Survivors::fail) end_workers(setup);
    loss = watch(setup.stamps, before + (has_spare ? 2 : 1), master.error_pipe, died);
  }
  ::close(master.error_pipe);
  if (spare) end(*spare);
  end(master.pid);
  if (!is_reaped) end(lost);
  end_orphans();
  return loss;
}

void print_loss(Who who, Scene scene, const std::vector<Loss>& losses) {
  std::vector<double> noticed, resumed, whole;
  for (const Loss& loss : losses) {
    if (!loss.resumed_after) continue;
    whole.push_back(*loss.resumed_after / 1e3);
    if (!loss.reported_after) continue;
    noticed.push_back(*loss.reported_after / 1e3);
    resumed.push_back(*loss.resumed_after - *loss.reported_after);
  }
  const auto cell = [](const std::vector<double>& values) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", median(values));
    return values.empty() ? std::string{"–"} : std::string{text};
  };
  const std::string never = "not within " + std::to_string(static_cast<int>(timeout_seconds));
  std::printf("| %s | %s | %s | %s | %s | %s | %zu |\n", name_of(who),
              scene.replacement == Replacement::spare ? "a spare" : "who is left",
              scene.survivors == Survivors::fail ? "fail, too" : "wait",
              whole.empty() ? never.c_str() : cell(whole).c_str(), cell(noticed).c_str(),
              cell(resumed).c_str(), losses.size());
}

void bench_loss(const Setup& setup) {
  std::printf(
      "\n| a node is lost: `kill -9` of its launcher; the lease is %.0f s | continues with | "
      "the other workers | death → last exec, s | detected after, s | from there, ms | of |\n",
      lease_seconds);
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Scene scene :
       {Scene{Replacement::none, Survivors::wait}, Scene{Replacement::none, Survivors::fail},
        Scene{Replacement::spare, Survivors::fail}}) {
    for (const auto who : {Who::cpprun, Who::torchrun}) {
      if (who == Who::torchrun && setup.python.empty()) continue;
      std::vector<Loss> losses;
      const int rounds = who == Who::torchrun ? 1 : std::min(setup.rounds, 5);
      for (int round = 0; round < rounds; ++round) losses.push_back(lose_once(setup, who, scene));
      print_loss(who, scene, losses);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  const Setup setup = read_setup(count, words);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  bench_restart(setup);
  bench_loss(setup);
  fs::remove(setup.stamps);
}
