// SPDX-License-Identifier: BSD-3-Clause
// Launching: cpprun beside torchrun and beside a launcher that does nothing else. All in one run,
// interleaved, medians; prints the table of docs/performance.md and judges nothing.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "tests/bench/launch_kit.h"

namespace {

using namespace cpprun::bench;

struct Times {
  std::vector<double> last_exec, exit;
};

void launch_once(const Setup& setup, Who who, int workers, Times& times) {
  std::filesystem::remove(setup.stamps);
  const auto words = command(setup, who, workers, {"--standalone"}, "end");
  const double begun = milliseconds_now();
  wait_for(start(words).pid);
  times.exit.push_back(milliseconds_now() - begun);
  if (const auto last = last_executed(setup.stamps, begun))
    times.last_exec.push_back(*last - begun);
}

void bench_launch(const Setup& setup) {
  std::printf("| launch, ms | workers | last exec | exit | last exec, × bare | goal |\n");
  std::printf("| --- | --- | --- | --- | --- | --- |\n");
  for (const int workers : {1, 4, 16}) {
    std::map<Who, Times> times;
    for (int round = 0; round < setup.rounds; ++round) {
      for (const auto who : participants(setup)) {
        if (takes_part(setup, who, round)) launch_once(setup, who, workers, times[who]);
      }
    }
    const double bare = median(times[Who::bare].last_exec);
    for (const auto who : participants(setup)) {
      const double last = median(times[who].last_exec);
      std::printf("| %s | %d | %.2f | %.2f | %.2f | %s |\n", name_of(who), workers, last,
                  median(times[who].exit), last / bare, who == Who::cpprun ? "≤ 2" : "");
    }
  }
}

// One after the other without a pause, as in a script of short jobs: what a launcher leaves behind
// competes with its own next launch. In blocks, so that other load on the machine affects all.
constexpr int launches_in_a_block = 8;

double block_once(const Setup& setup, Who who, int workers) {
  const auto words = command(setup, who, workers, {"--standalone"}, "end");
  const double begun = milliseconds_now();
  for (int launch = 0; launch < launches_in_a_block; ++launch) wait_for(start(words).pid);
  return (milliseconds_now() - begun) / launches_in_a_block;
}

void bench_back_to_back(const Setup& setup) {
  std::printf("\n| back to back, ms from command to exit | workers | median | × bare | goal |\n");
  std::printf("| --- | --- | --- | --- | --- |\n");
  for (const int workers : {1, 4, 16}) {
    std::map<Who, std::vector<double>> times;
    for (int block = 0; block < setup.back_to_back / launches_in_a_block; ++block) {
      for (const auto who : {Who::bare, Who::cpprun, Who::other}) {
        if (who == Who::other && setup.other.empty()) continue;
        times[who].push_back(block_once(setup, who, workers));
      }
    }
    std::filesystem::remove(setup.stamps);
    for (const auto& [who, values] : times) {
      const double middle = median(values);
      std::printf("| %s | %d | %.2f | %.2f | %s |\n", name_of(who), workers, middle,
                  middle / median(times[Who::bare]), who == Who::cpprun ? "≤ 2" : "");
    }
  }
}

// So many nodes of one worker, all on this machine: from the first command to the last exec.
double nodes_once(const Setup& setup, Who who, int nodes) {
  std::filesystem::remove(setup.stamps);
  Words options = meeting_at(free_port());
  options.push_back("--nnodes=" + std::to_string(nodes));
  const double begun = milliseconds_now();
  std::vector<pid_t> pids;
  for (int node = 0; node < nodes; ++node) {
    pids.push_back(start(command(setup, who, 1, options, "end")).pid);
  }
  for (const auto pid : pids) wait_for(pid);
  return last_executed(setup.stamps, begun).value_or(begun) - begun;
}

void bench_nodes(const Setup& setup) {
  std::printf("\n| nodes of one worker, all on this machine | last exec, ms | |\n");
  std::printf("| --- | --- | --- |\n");
  for (const int nodes : {2, 16, 128}) {
    std::map<Who, std::vector<double>> times;
    const int rounds = nodes == 128 ? 5 : setup.rounds;
    for (int round = 0; round < rounds; ++round) {
      times[Who::cpprun].push_back(nodes_once(setup, Who::cpprun, nodes));
      // Sixteen torchruns import PyTorch for half a minute; with more, nothing else is visible.
      if (setup.python.empty() || nodes > 2 || round >= setup.peer_rounds) continue;
      times[Who::torchrun].push_back(nodes_once(setup, Who::torchrun, nodes));
    }
    for (const auto& [who, values] : times) {
      std::printf("| %s | %.1f | %d nodes |\n", name_of(who), median(values), nodes);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  const Setup setup = read_setup(count, words);
  bench_back_to_back(setup);
  if (setup.rounds > 0) {
    bench_launch(setup);
    bench_nodes(setup);
  }
  std::filesystem::remove(setup.stamps);
}
