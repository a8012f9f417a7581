// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "launcher/workers/io/process_tree.h"
#include "tests/launcher/io_probe.h"

namespace process_test {

using namespace cpprun;
using probe::Pipe;
using probe::run_until;
using probe::spec_for;
using probe::victim;

namespace {

// The processes of one test and what they reported.
struct Node {
  asio::io_context context;
  std::map<int, link::ExitStatus> ended;
  std::map<int, int> pids;
  std::set<int> gone;
  std::optional<std::vector<TreeProcess>> tree;
  io::WorkerProcesses processes{
      context,
      {[this](LocalRank rank, link::ExitStatus status) { ended[rank.value] = status; },
       [this](LocalRank rank, int pid) {
         CHECK(pid == pids[rank.value]);
         gone.insert(rank.value);
       },
       [this](std::vector<TreeProcess> seen) { tree = std::move(seen); }},
      {}};

  int start(const WorkerSpec& spec, int out = -1) {
    const auto pid = processes.spawn(spec, {.out = out, .err = -1});
    REQUIRE(pid.has_value());
    return pids[spec.local_rank.value] = *pid;
  }
  link::ExitStatus end_of(int local_rank) {
    REQUIRE(run_until(context, [&] { return ended.contains(local_rank); }));
    return ended[local_rank];
  }
  void sweep(int local_rank) {
    processes.sweep(LocalRank{local_rank});
    REQUIRE(run_until(context, [&] { return gone.contains(local_rank); }));
  }
};

}  // namespace

TEST_CASE("a worker runs on its assigned processors, and reports when it cannot") {
  Node node;
  Pipe pipe;
  auto spec = spec_for({"/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status"});
  spec.cpus = {0};
  node.start(spec, pipe.in());
  pipe.close_in();
  CHECK(node.end_of(0) == link::ExitStatus{});
  CHECK(pipe.read_all() == "Cpus_allowed_list:\t0\n");
  node.sweep(0);
  spec.cpus = {8191};
  const auto refused = node.processes.spawn(spec, {.out = -1, .err = -1});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error() == SpawnError{SpawnStage::processors, EINVAL});
}

TEST_CASE("a worker has the given environment with its own variables over it, and no other") {
  asio::io_context context;
  Pipe pipe;
  bool ended = false;
  io::WorkerProcesses processes(context, {[&](auto, auto) { ended = true; }, [](auto, auto) {}}, {},
                                {.open_files = {},
                                 .job_processes = {},
                                 .niceness = {},
                                 .side = nullptr,
                                 .environment = {{"A", "1"}, {"B", "2"}}});
  auto spec = spec_for({"/usr/bin/env"});
  spec.variables = {{"B", "3"}, {"C", ""}};
  REQUIRE(processes.spawn(spec, {.out = pipe.in(), .err = -1}));
  pipe.close_in();
  CHECK(pipe.read_all() == "A=1\nB=3\nC=\n");
  CHECK(run_until(context, [&] { return ended; }));
}

TEST_CASE("a worker does not inherit cpprun's own priority") {
  asio::io_context context;
  Pipe pipe;
  bool ended = false;
  io::WorkerProcesses processes(context, {[&](auto, auto) { ended = true; }, [](auto, auto) {}}, {},
                                {.open_files = {}, .job_processes = {}, .niceness = 5});
  REQUIRE(processes.spawn(spec_for({"/bin/sh", "-c", "nice"}), {.out = pipe.in(), .err = -1}));
  pipe.close_in();
  CHECK(pipe.read_all() == "5\n");
  REQUIRE(run_until(context, [&] { return ended; }));
}

TEST_CASE("a worker's exit code and signal are reported as they are") {
  Node node;
  node.start(spec_for({victim(), "exit", "3"}, 0));
  node.start(spec_for({victim(), "crash"}, 1));
  CHECK(node.end_of(0) == link::ExitStatus{false, 3});
  CHECK(node.end_of(1) == link::ExitStatus{true, SIGSEGV});
  node.sweep(0);
  node.sweep(1);
}

TEST_CASE("a worker leads its own session, has clean signals, and inherits only stdio") {
  Node node;
  Pipe heard;
  const int leaked = ::open("/dev/null", O_RDONLY);  // without CLOEXEC, as a careless parent
  ::signal(SIGPIPE, SIG_IGN);
  node.start(spec_for({victim(), "standing"}), heard.in());
  heard.close_in();
  CHECK(heard.read_all() == "leader=1 group=1 blocked=0 ignored=0 descriptors=3 death=9\n");
  CHECK(node.end_of(0) == link::ExitStatus{});
  ::close(leaked);
  node.sweep(0);
}

TEST_CASE("a failed exec is reported with stage and errno, and leaves no process") {
  Node node;
  const auto missing = node.processes.spawn(spec_for({"/nowhere/train"}), {});
  CHECK(missing.error() == SpawnError{SpawnStage::exec, ENOENT});
  const auto directory = node.processes.spawn(spec_for({"/tmp"}), {});
  CHECK(directory.error() == SpawnError{SpawnStage::exec, EACCES});
  auto spec = spec_for({victim(), "exit", "0"});
  spec.err = {StreamTarget::file, "/nowhere/stderr.log"};
  CHECK(node.processes.spawn(spec, {}).error() == SpawnError{SpawnStage::stderr_target, ENOENT});
  CHECK(io::descendants_of(::getpid()).empty());
}

TEST_CASE("a redirected stream is the file itself, and an unwanted one is discarded") {
  Node node;
  const auto directory = std::filesystem::temp_directory_path() /
                         ("cpprun_process_test_" + std::to_string(::getpid()));
  std::filesystem::create_directory(directory);
  auto spec = spec_for({"/bin/sh", "-c", "echo word; echo lost >&2"});
  spec.out = {StreamTarget::file, directory / "stdout.log"};
  spec.err = {StreamTarget::nowhere, ""};
  node.start(spec);
  CHECK(node.end_of(0) == link::ExitStatus{});
  std::string word;
  std::getline(std::ifstream(directory / "stdout.log"), word);
  CHECK(word == "word");
  node.sweep(0);
  std::filesystem::remove_all(directory);
}

TEST_CASE(
    "a signal reaches the whole group, stopped workers too, and KILL ends workers that ignore "
    "TERM") {
  Node node;
  Pipe heard;
  node.start(spec_for({victim(), "stubborn"}), heard.in());
  CHECK(heard.read_line() == "ready");
  node.processes.signal_group(LocalRank{0}, SIGTERM);
  node.processes.signal_group(LocalRank{0}, SIGKILL);
  CHECK(node.end_of(0) == link::ExitStatus{true, SIGKILL});
  node.sweep(0);

  const int pid = node.start(spec_for({"/bin/sleep", "1000"}, 1));
  ::kill(pid, SIGSTOP);
  node.processes.signal_group(LocalRank{1}, SIGTERM);
  CHECK(node.end_of(1) == link::ExitStatus{true, SIGTERM});
  node.sweep(1);
}

TEST_CASE("a signal that does not ask to exit leaves a stopped worker stopped") {
  Node node;
  const int pid = node.start(spec_for({"/bin/sleep", "1000"}));
  ::kill(pid, SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, WUNTRACED) == pid);
  node.processes.signal_group(LocalRank{0}, SIGUSR1);
  CHECK(io::read_stat(pid)->state == 'T');
  node.processes.signal_group(LocalRank{0}, SIGKILL);
  node.end_of(0);
  node.sweep(0);
}

TEST_CASE("a worker's group is swept even when the worker exited with 0") {
  Node node;
  Pipe heard;
  node.start(spec_for({victim(), "family", "end"}), heard.in());
  heard.close_in();
  CHECK(heard.read_line() == "ready");
  CHECK(node.end_of(0) == link::ExitStatus{});
  CHECK(io::descendants_of(::getpid()).size() >= 2);
  node.sweep(0);
  // Only the daemon, which left the group, still runs.
  CHECK(io::descendants_of(::getpid()).size() == 1);

  bool swept = false;
  node.processes.sweep_node([&] { swept = true; });
  REQUIRE(run_until(node.context, [&] { return swept; }));
  CHECK(io::descendants_of(::getpid()).empty());
  CHECK(heard.read_all().empty());  // end of file: all writers have closed it
}

TEST_CASE("sweeping the node spares the watchdog and ends at once when no process is left") {
  asio::io_context context;
  const pid_t spared = ::fork();
  if (spared == 0) {
    while (true) ::pause();
  }
  io::WorkerProcesses processes(context, {[](auto, auto) {}, [](auto, auto) {}}, {spared});
  bool swept = false;
  processes.sweep_node([&] { swept = true; });
  REQUIRE(run_until(context, [&] { return swept; }));
  CHECK(::kill(spared, 0) == 0);
  ::kill(spared, SIGKILL);
  ::waitpid(spared, nullptr, 0);
}

TEST_CASE("the exit of a watchdog is noticed") {
  asio::io_context context;
  const pid_t spared = ::fork();
  if (spared == 0) {
    while (true) ::pause();
  }
  bool ended = false;
  io::WorkerProcesses processes(
      context, {[](auto, auto) {}, [](auto, auto) {}, {}, [&](int pid) { ended = pid == spared; }},
      {spared});
  ::kill(spared, SIGKILL);
  REQUIRE(run_until(context, [&] { return ended; }));
}

TEST_CASE("children that existed before, and their orphans, are not swept") {
  asio::io_context context;
  Pipe bell;
  Pipe heard;
  const auto inherited = ::fork();
  if (inherited == 0) {
    ::dup2(bell.out(), STDIN_FILENO);
    ::dup2(heard.in(), STDOUT_FILENO);
    ::close_range(3, ~0U, 0);
    // On a line of input it leaves an orphan, which is reparented to us as a worker's would be.
    ::execl("/bin/sh", "sh", "-c", "read bell; (setsid sleep 1000 & echo $!)", nullptr);
  }
  const auto job_processes =
      io::make_job_processes("bystanders" + std::to_string(::getpid()), 4711);
  REQUIRE(job_processes.mark.has_value());
  bool ended = false;
  io::WorkerProcesses processes(context, {[&](auto, auto) { ended = true; }, [](auto, auto) {}}, {},
                                {.open_files = {}, .job_processes = job_processes});
  Pipe said;
  REQUIRE(processes.spawn(spec_for({"/bin/sh", "-c", "env -i setsid sleep 1000 & echo $!"}),
                          {.out = said.in(), .err = -1}));
  const int left_behind = std::stoi(said.read_line());
  REQUIRE(::write(bell.in(), "\n", 1) == 1);
  const int orphan = std::stoi(heard.read_line());
  REQUIRE(run_until(context, [&] { return ended; }));
  processes.sweep(LocalRank{0});
  bool swept = false;
  processes.sweep_node([&] { swept = true; });
  REQUIRE(run_until(context, [&] { return swept && processes.none_is_left(); }));
  CHECK(io::read_stat(orphan)->alive());
  CHECK_FALSE(io::read_stat(left_behind).has_value());
  ::kill(orphan, SIGKILL);
  ::waitpid(orphan, nullptr, 0);
}

TEST_CASE("no process outlives the owner of the processes") {
  // Children from before an owner starts are not its own, and neither are their descendants.
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  // Many times: the children of a process that dies change parents between two scans.
  for (int i = 0; i < 20; ++i) {
    Pipe heard;
    {
      Node node;
      node.start(spec_for({victim(), "family", "stay"}), heard.in());
      heard.close_in();
      CHECK(heard.read_line() == "ready");
    }
    CHECK(heard.read_all().empty());
  }
}

TEST_CASE("hundreds of workers start and are all accounted for") {
  Node node;
  for (int i = 0; i < 300; ++i) node.start(spec_for({"/bin/true"}, i));
  REQUIRE(run_until(node.context, [&] { return node.ended.size() == 300; }));
  for (int i = 0; i < 300; ++i) node.sweep(i);
  CHECK(io::descendants_of(::getpid()).empty());
}

TEST_CASE("a worker's child is listed, signalled by its identity, and noticed when it exits") {
  Node node;
  Pipe said;
  // No parent waits for that child, so its exit sends us no SIGCHLD.
  const int leader =
      node.start(spec_for({"/bin/sh", "-c", "sleep 1000 & echo $!; exec sleep 1000"}), said.in());
  const int child = std::stoi(said.read_line());
  node.processes.watch_tree();
  REQUIRE(run_until(node.context, [&] { return node.tree.has_value(); }));
  REQUIRE(node.tree->size() == 1);
  const TreeProcess seen = node.tree->front();
  CHECK(seen.pid == child);
  CHECK(seen.parent == leader);
  CHECK(seen.session == leader);
  // Another process that has this pid by now.
  node.processes.signal_process(child, seen.started + 1, SIGKILL);
  node.processes.signal_process(child, seen.started, SIGTERM);
  REQUIRE(run_until(node.context, [&] { return node.tree->empty(); }));
  node.processes.signal_main(LocalRank{0}, SIGTERM);
  CHECK(node.end_of(0) == link::ExitStatus{true, SIGTERM});
  node.sweep(0);
}

TEST_CASE(
    "a signal for the main process does not reach its children, and ends a stopped process too") {
  Node node;
  Pipe said;
  const int leader =
      node.start(spec_for({"/bin/sh", "-c", "sleep 1000 & echo $!; exec sleep 1000"}), said.in());
  const int child = std::stoi(said.read_line());
  ::kill(leader, SIGSTOP);
  node.processes.signal_main(LocalRank{0}, SIGTERM);
  CHECK(node.end_of(0) == link::ExitStatus{true, SIGTERM});
  CHECK(io::read_stat(child)->alive());
  node.sweep(0);
  CHECK_FALSE(io::read_stat(child).has_value());
}

TEST_CASE("the children of a released worker survive sweeps and the end of their owner") {
  Pipe said;
  int child = 0;
  {
    Node node;
    node.start(spec_for({"/bin/sh", "-c", "setsid sleep 1000 & echo $!"}), said.in());
    child = std::stoi(said.read_line());
    CHECK(node.end_of(0) == link::ExitStatus{});
    node.processes.release(LocalRank{0});
    REQUIRE(run_until(node.context, [&] { return node.gone.contains(0); }));
    CHECK(node.processes.none_is_left());
  }
  REQUIRE(io::read_stat(child).has_value());
  CHECK(io::read_stat(child)->alive());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("orphans are reaped while an exited worker has still to be swept") {
  Node node;
  Pipe said;
  node.start(spec_for({"/bin/sh", "-c", "setsid sleep 1000 & echo $!"}), said.in());
  const int child = std::stoi(said.read_line());
  CHECK(node.end_of(0) == link::ExitStatus{});
  ::kill(child, SIGKILL);
  CHECK(run_until(node.context, [&] { return !io::read_stat(child).has_value(); }));
  node.sweep(0);
}

}  // namespace process_test
