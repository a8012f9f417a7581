// SPDX-License-Identifier: BSD-3-Clause
// Idle use while the workers work: memory, processor time and wake-ups of cpprun, alone, as master
// and as another node, and of torchrun. Prints the table of docs/performance.md.

#include <poll.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/bench/launch_kit.h"
#include "tests/bench/process_counters.h"

namespace {

using namespace cpprun::bench;
namespace fs = std::filesystem;

// The children of a launcher that run the launcher's own program: cpprun's watchdog.
std::vector<pid_t> companions(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid);
  std::error_code gone;
  const auto own = fs::read_symlink(directory + "/exe", gone);
  std::ifstream children(directory + "/task/" + std::to_string(pid) + "/children");
  std::vector<pid_t> found;
  for (pid_t child = 0; children >> child;) {
    if (fs::read_symlink("/proc/" + std::to_string(child) + "/exe", gone) == own) {
      found.push_back(child);
    }
  }
  return found;
}

struct Watched {
  std::string name;
  const char* goal = "";
  pid_t pid = -1;
  std::vector<pid_t> beside;
  Counters before = {};
};

double mebibytes(long bytes) {
  return static_cast<double>(bytes) / 1048576;
}

void print_row(const Watched& one, int seconds) {
  const Counters after = counters_of(one.pid);
  Counters beside;
  for (const pid_t pid : one.beside) {
    const Counters its = counters_of(pid);
    beside.shared_out_bytes += its.shared_out_bytes;
  }
  const double per_second =
      static_cast<double>(after.wake_ups - one.before.wake_ups) / static_cast<double>(seconds);
  const double cpu_per_minute =
      (after.cpu_seconds - one.before.cpu_seconds) * 1e3 * 60 / static_cast<double>(seconds);
  std::printf("| %s | %.1f MiB | %.1f MiB | %.1f MiB | %.2f | %.1f ms | %s |\n", one.name.c_str(),
              mebibytes(after.resident_bytes), mebibytes(after.shared_out_bytes),
              mebibytes(beside.shared_out_bytes), per_second, cpu_per_minute, one.goal);
}

// Starts the nodes one after the other, lets them settle, and samples them.
void stand_by(const Setup& setup, Who who, int nodes, const std::vector<Watched>& rows) {
  fs::remove(setup.stamps);
  constexpr int workers = 4;
  Words options = nodes == 1 ? Words{"--standalone"} : meeting_at(free_port());
  if (nodes > 1) options.push_back("--nnodes=" + std::to_string(nodes));
  std::vector<Watched> watched = rows;
  for (Watched& one : watched) {
    one.pid = start(command(setup, who, workers, options, "hang")).pid;
    ::poll(nullptr, 0, 100);  // The first one is the master.
  }
  if (wait_for_stamps(setup.stamps, static_cast<std::size_t>(nodes * workers))) {
    ::poll(nullptr, 0, 1000);  // The start is complete.
    for (Watched& one : watched) {
      if (who == Who::cpprun) one.beside = companions(one.pid);
      one.before = counters_of(one.pid);
    }
    ::poll(nullptr, 0, setup.seconds * 1000);
    for (const Watched& one : watched) print_row(one, setup.seconds);
  }
  for (const Watched& one : watched) end(one.pid);
}

}  // namespace

int main(int count, char** words) {
  const Setup setup = read_setup(count, words);
  std::printf(
      "| standing by with 4 workers, %d s | resident | shared out (PSS) | its watchdog (PSS) |"
      " wake-ups per second | CPU per minute | goal |\n",
      setup.seconds);
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  stand_by(setup, Who::cpprun, 1, {{"**cpprun**, one node", "≤ 4 MB, no wake-up"}});
  stand_by(setup, Who::cpprun, 2,
           {{"**cpprun**, master of two nodes", "none but the heartbeat"},
            {"**cpprun**, the other node", "none but the heartbeat"}});
  if (!setup.python.empty()) {
    stand_by(setup, Who::torchrun, 1, {{"torchrun, one node"}});
    stand_by(setup, Who::torchrun, 2,
             {{"torchrun, master of two nodes"}, {"torchrun, the other node"}});
  }
  fs::remove(setup.stamps);
}
