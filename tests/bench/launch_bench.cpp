// Launching, restarting and waiting: cpprun beside torchrun and beside a launcher that does nothing
// else. All in one run, interleaved, medians; prints tables and judges nothing
// (docs/performance.md).
//
//   launch_bench --cpprun P --bare P --worker P [--python P] [--rounds N] [--peer-rounds N]

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/launch_stamp.h"

extern char** environ;

namespace {

namespace fs = std::filesystem;
using cpprun::bench::Moment;
using cpprun::bench::Stamp;
using Words = std::vector<std::string>;

struct Setup {
  std::string cpprun, bare, worker, python;
  int rounds = 31;
  int peer_rounds = 5;  // torchrun takes a second and a half
  std::string stamps;   // the file that the workers append to
};

double milliseconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double milliseconds_of(const Stamp& stamp) {
  return static_cast<double>(stamp.nanoseconds) / 1e6;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

pid_t start(const Words& words, bool quiet = true) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (quiet) {
    ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  }
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  std::fprintf(stderr, "launch_bench: cannot start %s\n", argv[0]);
  std::exit(1);
}

void wait_for(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (status != 0) std::fprintf(stderr, "launch_bench: ended with status %d\n", status);
}

std::vector<Stamp> read_stamps(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Stamp> stamps;
  for (Stamp one; file.read(reinterpret_cast<char*>(&one), sizeof one);) stamps.push_back(one);
  return stamps;
}

// Blocks until that many workers were executed; bounded, because a launcher may have failed.
void wait_for_stamps(const std::string& path, std::size_t wanted) {
  for (int i = 0; i < 20000 && read_stamps(path).size() < wanted; ++i) ::poll(nullptr, 0, 2);
}

// --- the launchers ------------------------------------------------------------------------------

enum class Who { bare, cpprun, torchrun };
constexpr const char* name_of(Who who) {
  return who == Who::bare ? "bare launcher" : who == Who::cpprun ? "cpprun" : "torchrun";
}

Words command(const Setup& setup, Who who, int workers, const Words& options,
              const std::string& mode) {
  const auto per_node = "--nproc-per-node=" + std::to_string(workers);
  Words words;
  if (who == Who::bare) words = {setup.bare, std::to_string(workers)};
  if (who == Who::cpprun) words = {setup.cpprun, per_node};
  if (who == Who::torchrun) {
    words = {setup.python, "-m", "torch.distributed.run", per_node};
  }
  if (who != Who::bare) {
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("--no-python");
  }
  words.insert(words.end(), {setup.worker, setup.stamps, mode});
  return words;
}

std::vector<Who> everybody(const Setup& setup) {
  std::vector<Who> all = {Who::bare, Who::cpprun};
  if (!setup.python.empty()) all.push_back(Who::torchrun);
  return all;
}

bool takes_part(const Setup& setup, Who who, int round) {
  return round < (who == Who::torchrun ? setup.peer_rounds : setup.rounds);
}

// --- launch -------------------------------------------------------------------------------------

struct Times {
  std::vector<double> last_exec, exit;
};

void launch_once(const Setup& setup, Who who, int workers, Times& times) {
  fs::remove(setup.stamps);
  const auto words = command(setup, who, workers, {"--standalone"}, "end");
  const double begun = milliseconds_now();
  wait_for(start(words));
  times.exit.push_back(milliseconds_now() - begun);
  double last = 0;
  for (const auto& stamp : read_stamps(setup.stamps)) {
    last = std::max(last, milliseconds_of(stamp) - begun);
  }
  times.last_exec.push_back(last);
}

void bench_launch(const Setup& setup) {
  std::printf("\n| launch, ms (median) | workers | last exec | exit | last exec, × bare |\n");
  std::printf("| --- | --- | --- | --- | --- |\n");
  for (const int workers : {1, 4, 16}) {
    std::map<Who, Times> times;
    for (int round = 0; round < setup.rounds; ++round) {
      for (const auto who : everybody(setup)) {
        if (takes_part(setup, who, round)) launch_once(setup, who, workers, times[who]);
      }
    }
    const double bare = median(times[Who::bare].last_exec);
    for (const auto who : everybody(setup)) {
      const double last = median(times[who].last_exec);
      std::printf("| %s | %d | %.2f | %.2f | %.2f |\n", name_of(who), workers, last,
                  median(times[who].exit), last / bare);
    }
  }
}

// --- restart ------------------------------------------------------------------------------------

// From the death of rank 0 to the last worker's second execution.
std::optional<double> death_to_last(const std::string& path) {
  double died = 0;
  double last = 0;
  for (const auto& stamp : read_stamps(path)) {
    if (stamp.moment == Moment::died) died = milliseconds_of(stamp);
    if (stamp.moment == Moment::executed) last = std::max(last, milliseconds_of(stamp));
  }
  if (died == 0 || last < died) return std::nullopt;
  return last - died;
}

std::string free_port() {
  std::random_device device;
  return std::to_string(std::uniform_int_distribution<int>(20000, 29999)(device));
}

void restart_once(const Setup& setup, Who who, int nodes, std::vector<double>& times) {
  fs::remove(setup.stamps);
  std::vector<pid_t> pids;
  const auto port = free_port();
  for (int node = 0; node < nodes; ++node) {
    Words options = {"--max-restarts=1"};
    if (nodes == 1) options.push_back("--standalone");
    if (nodes > 1) options.push_back("--nnodes=2");
    if (nodes > 1 && who == Who::torchrun) {
      // Its static rendezvous does not restart the other node at all.
      options.insert(options.end(), {"--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:" + port});
    } else if (nodes > 1) {
      options.insert(options.end(), {"--node-rank=" + std::to_string(node),
                                     "--master-addr=127.0.0.1", "--master-port=" + port});
    }
    pids.push_back(start(command(setup, who, nodes == 1 ? 4 : 2, options, "fail_once")));
  }
  for (const auto pid : pids) wait_for(pid);
  if (const auto time = death_to_last(setup.stamps)) times.push_back(*time);
}

void bench_restart(const Setup& setup) {
  std::printf("\n| restart: death → last respawned, ms (median) | nodes × workers | time | n |\n");
  std::printf("| --- | --- | --- | --- |\n");
  for (const int nodes : {1, 2}) {
    std::map<Who, std::vector<double>> times;
    for (int round = 0; round < setup.rounds; ++round) {
      for (const auto who : everybody(setup)) {
        if (nodes == 2 && who == Who::bare) continue;
        if (takes_part(setup, who, round)) restart_once(setup, who, nodes, times[who]);
      }
    }
    for (const auto& [who, values] : times) {
      std::printf("| %s | %s | %.2f | %zu |\n", name_of(who), nodes == 1 ? "1 × 4" : "2 × 2",
                  median(values), values.size());
    }
  }
}

// --- footprint ----------------------------------------------------------------------------------

long from_status(const std::string& path, const std::string& key) {
  std::ifstream status(path);
  std::string word;
  while (status >> word) {
    long value = 0;
    if (word == key + ":" && status >> value) return value;
  }
  return 0;
}

long wake_ups(pid_t pid) {
  long total = 0;
  for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    total += from_status(task.path() / "status", "voluntary_ctxt_switches");
  }
  return total;
}

// The children of a launcher that run the launcher's own program: cpprun's warden.
std::vector<pid_t> companions(pid_t pid) {
  std::vector<pid_t> found;
  const auto own = fs::read_symlink("/proc/" + std::to_string(pid) + "/exe");
  std::ifstream children("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) +
                         "/children");
  for (pid_t child = 0; children >> child;) {
    std::error_code gone;
    if (fs::read_symlink("/proc/" + std::to_string(child) + "/exe", gone) == own) {
      found.push_back(child);
    }
  }
  return found;
}

void footprint_of(const Setup& setup, Who who) {
  constexpr int seconds = 10;
  fs::remove(setup.stamps);
  const pid_t pid = start(command(setup, who, 4, {"--standalone"}, "hang"));
  wait_for_stamps(setup.stamps, 4);
  ::poll(nullptr, 0, 1000);  // whatever belongs to the start is over
  const auto others = who == Who::cpprun ? companions(pid) : std::vector<pid_t>{};
  const long before = wake_ups(pid);
  ::poll(nullptr, 0, seconds * 1000);
  const double per_second = static_cast<double>(wake_ups(pid) - before) / seconds;
  const auto status = "/proc/" + std::to_string(pid) + "/status";
  const auto rollup = "/proc/" + std::to_string(pid) + "/smaps_rollup";
  long beside = 0;
  for (const auto other : others) {
    beside += from_status("/proc/" + std::to_string(other) + "/smaps_rollup", "Pss");
  }
  std::printf("| %s | %.1f | %.1f | %.1f | %.2f |\n", name_of(who),
              static_cast<double>(from_status(status, "VmRSS")) / 1024,
              static_cast<double>(from_status(rollup, "Pss")) / 1024,
              static_cast<double>(beside) / 1024, per_second);
  ::kill(pid, SIGTERM);
  ::waitpid(pid, nullptr, 0);
}

void bench_footprint(const Setup& setup) {
  std::printf("\n| waiting for 4 workers | RSS MB | PSS MB | companions' PSS MB | wake-ups/s |\n");
  std::printf("| --- | --- | --- | --- | --- |\n");
  for (const auto who : everybody(setup)) {
    if (who != Who::bare) footprint_of(setup, who);
  }
}

Setup read_setup(int count, char** words) {
  Setup setup;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string flag = words[i];
    if (flag == "--cpprun") setup.cpprun = words[i + 1];
    if (flag == "--bare") setup.bare = words[i + 1];
    if (flag == "--worker") setup.worker = words[i + 1];
    if (flag == "--python") setup.python = words[i + 1];
    if (flag == "--rounds") setup.rounds = std::atoi(words[i + 1]);
    if (flag == "--peer-rounds") setup.peer_rounds = std::atoi(words[i + 1]);
  }
  return setup;
}

}  // namespace

int main(int count, char** words) {
  auto setup = read_setup(count, words);
  if (setup.cpprun.empty() || setup.bare.empty() || setup.worker.empty()) {
    std::fprintf(stderr, "launch_bench: --cpprun, --bare and --worker are needed\n");
    return 64;
  }
  setup.stamps = (fs::temp_directory_path() / ("launch_" + std::to_string(::getpid()))).string();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  bench_launch(setup);
  bench_restart(setup);
  bench_footprint(setup);
  fs::remove(setup.stamps);
}
