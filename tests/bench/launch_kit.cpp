// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/launch_kit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

extern char** environ;

namespace cpprun::bench {

namespace fs = std::filesystem;

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
    if (flag == "--other") setup.other = words[i + 1];
    if (flag == "--back-to-back") setup.back_to_back = std::atoi(words[i + 1]);
    if (flag == "--seconds") setup.seconds = std::atoi(words[i + 1]);
  }
  if (setup.cpprun.empty() || setup.bare.empty() || setup.worker.empty()) {
    std::fprintf(stderr, "bench: --cpprun, --bare and --worker are needed\n");
    std::exit(64);
  }
  setup.stamps = (fs::temp_directory_path() / ("launch_" + std::to_string(::getpid()))).string();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return setup;
}

// --- who -----------------------------------------------------------------------------------------

const char* name_of(Who who) {
  if (who == Who::other) return "the other cpprun";
  return who == Who::bare ? "bare launcher" : who == Who::cpprun ? "**cpprun**" : "torchrun";
}

std::vector<Who> participants(const Setup& setup) {
  std::vector<Who> all = {Who::bare, Who::cpprun};
  if (!setup.python.empty()) all.push_back(Who::torchrun);
  return all;
}

bool takes_part(const Setup& setup, Who who, int round) {
  return round < (who == Who::torchrun ? setup.peer_rounds : setup.rounds);
}

Words command(const Setup& setup, Who who, int workers, const Words& options,
              const std::string& mode) {
  const auto per_node = "--nproc-per-node=" + std::to_string(workers);
  Words words;
  if (who == Who::bare) words = {setup.bare, std::to_string(workers)};
  if (who == Who::cpprun) words = {setup.cpprun, per_node};
  if (who == Who::other) words = {setup.other, per_node};
  if (who == Who::torchrun) words = {setup.python, "-m", "torch.distributed.run", per_node};
  if (who != Who::bare) {
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("--no-python");
  }
  words.insert(words.end(), {setup.worker, setup.stamps, mode});
  return words;
}

Words meeting_at(const std::string& port) {
  return {"--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:" + port, "--rdzv-id=bench"};
}

std::string free_port() {
  std::random_device device;
  std::uniform_int_distribution<int> any(20000, 29999);
  for (;;) {
    const int port = any(device);
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const bool free =
        ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(socket);
    if (free) return std::to_string(port);
  }
}

// --- programs ------------------------------------------------------------------------------------

Started start(const Words& words, bool with_error_pipe) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  Started started;
  int ends[2] = {-1, -1};
  if (with_error_pipe && ::pipe2(ends, O_CLOEXEC) != 0) std::exit(1);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  if (with_error_pipe) {
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  } else {
    ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  }
  const int error = ::posix_spawnp(&started.pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (with_error_pipe) ::close(ends[1]);
  started.error_pipe = ends[0];
  if (error == 0) return started;
  std::fprintf(stderr, "bench: cannot start %s\n", argv[0]);
  std::exit(1);
}

void wait_for(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (status != 0) std::fprintf(stderr, "bench: ended with status %d\n", status);
}

void end(pid_t pid) {
  ::kill(pid, SIGTERM);
  for (int tries = 0; tries < 1000; ++tries) {
    if (::waitpid(pid, nullptr, WNOHANG) != 0) return;
    ::poll(nullptr, 0, 10);
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

// --- stamps --------------------------------------------------------------------------------------

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

std::vector<Stamp> read_stamps(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Stamp> stamps;
  for (Stamp one; file.read(reinterpret_cast<char*>(&one), sizeof one);) stamps.push_back(one);
  return stamps;
}

bool wait_for_stamps(const std::string& path, std::size_t wanted, double seconds) {
  const double deadline = milliseconds_now() + seconds * 1e3;
  while (read_stamps(path).size() < wanted) {
    if (milliseconds_now() > deadline) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

std::optional<double> last_executed(const std::string& path, double since) {
  double last = 0;
  for (const auto& stamp : read_stamps(path)) {
    if (stamp.moment == ClockPair::executed) last = std::max(last, milliseconds_of(stamp));
  }
  if (last < since) return std::nullopt;
  return last;
}

}  // namespace cpprun::bench
