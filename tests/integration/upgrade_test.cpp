// SPDX-License-Identifier: BSD-3-Clause
// Agents that are replaced by another program while their workers run (cpprunctl upgrade-agent),
// with the finished programs: nothing of the output and of the store is lost, all processes stay,
// and a program that cannot continue leaves everything as it was.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace upgrade_test {

using namespace cpprun::integration;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// A job that runs a copy of cpprun, which can be replaced.
struct Scene {
  Directory directory;
  int port = free_port();
  std::string program = directory.path() + "/cpprun";
  std::string end = directory.path() + "/end";

  Scene() { install(from_build("CPPRUN")); }

  // As a package manager does it: another file under the same name.
  void install(const std::string& from) const {
    fs::copy_file(from, program + ".new", fs::copy_options::overwrite_existing);
    fs::permissions(program + ".new", fs::perms::owner_all);
    fs::rename(program + ".new", program);
  }
  void install_text(std::string_view text) const { install(directory.write("other", text)); }

  Words node(const Words& flags, const Words& what, int nodes = 1, int rank = 0) const {
    Words words = {program,
                   "--nnodes=" + std::to_string(nodes),
                   "--rdzv-id=upgraded",
                   "--master-addr=127.0.0.1",
                   "--master-port=" + std::to_string(port),
                   "--node-rank=" + std::to_string(rank)};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("--no-python");
    words.insert(words.end(), what.begin(), what.end());
    return words;
  }
  Options options() const { return {.variables = {{"TMPDIR", directory.path()}}}; }
  Ended upgrade(const Words& more = {}) const {
    Words words = {from_build("CPPRUNCTL"), "--address", "127.0.0.1:" + std::to_string(port),
                   "upgrade-agent", "upgraded"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, options());
  }
  void finish() const { std::ofstream(end) << "end"; }
};

void must_upgrade(const Scene& scene, const Words& more = {}) {
  const Ended ended = scene.upgrade(more);
  INFO(ended.out, ended.err);
  REQUIRE(ended.code == 0);
}

void must_refuse(const Scene& scene, const std::string& why, const Words& more = {}) {
  const Ended ended = scene.upgrade(more);
  INFO(why, " in ", ended.out, ended.err);
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, why));
}

// "line 0 of rank R" to the last one, each once and in order. Returns how many.
long check_lines(const std::string& text, int rank, const std::string& prefix = "") {
  const std::string begin = prefix + "line ";
  const std::string end = " of rank " + std::to_string(rank);
  long next = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.ends_with(end) || !line.starts_with(begin)) continue;
    const bool is_next = line == begin + std::to_string(next) + end;
    if (!is_next) FAIL("not line ", next, ": ", line);
    ++next;
  }
  return next;
}

std::set<pid_t> workers_of(const Command& command) {
  std::set<pid_t> pids;
  for (const pid_t pid : command.relatives()) {
    std::error_code gone;
    const auto program = fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", gone);
    if (program == worker() || program.filename() == "store_worker") pids.insert(pid);
  }
  return pids;
}

std::size_t descriptors_of(pid_t pid) {
  const fs::directory_iterator all("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(all), fs::end(all)));
}

// A connection may still be closing.
bool has_at_most(std::size_t descriptors, pid_t pid) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (descriptors_of(pid) > descriptors) {
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

}  // namespace

TEST_CASE(
    "an agent is replaced many times while its workers print: no line is lost, doubled or out of "
    "order, all processes stay, and no descriptor is leaked") {
  const Scene scene;
  const std::string logs = scene.directory.path() + "/logs";
  const std::string events = scene.directory.path() + "/events.jsonl";
  Command command(
      scene.node({"--nproc-per-node=3", "--tee=3", "--log-dir=" + logs, "--events=" + events},
                 {worker(), "count_until", scene.end}),
      scene.options());
  for (const char* rank : {"0", "1", "2"}) {
    command.expect_out(std::string("line 100 of rank ") + rank + "\n");
  }
  const auto workers = workers_of(command);
  REQUIRE(workers.size() == 3);
  must_upgrade(scene);
  const auto before = descriptors_of(command.pid());
  for (int i = 0; i < 10; ++i) must_upgrade(scene);
  CHECK(has_at_most(before, command.pid()));
  CHECK(workers_of(command) == workers);
  scene.finish();
  const Ended ended = command.wait();
  CHECK(ended.code == 0);
  CHECK(count(ended.err, "the agent was upgraded") == 11);
  std::size_t files = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string prefix = "[default" + std::to_string(rank) + "]:";
    const long lines = check_lines(ended.out, rank, prefix);
    CHECK(lines > 100);
    CHECK(check_lines(ended.err, rank, prefix) == lines);
    for (const auto& name : scene.directory.files()) {
      if (!contains(name, "/" + std::to_string(rank) + "/std")) continue;
      ++files;
      CHECK(check_lines(Directory::read(scene.directory.path() + "/" + name), rank) == lines);
    }
  }
  CHECK(files == 6);
  std::size_t upgrades = 0;
  std::ifstream lines(events);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    last = json::parse(line)["event"];
    upgrades += last == "agent_upgraded" ? 1 : 0;
  }
  CHECK(upgrades == 11);
  CHECK(last == "job_ended");
}

TEST_CASE("after an upgrade a worker that fails is diagnosed, and the job restarts and ends") {
  const Scene scene;
  const std::string report = scene.directory.path() + "/report.json";
  Command command(scene.node({"--nproc-per-node=2", "--max-restarts=1", "--report=" + report},
                             {worker(), "seat", "count_until", scene.end}),
                  scene.options());
  command.expect_out("restart 0\n", 2);
  must_upgrade(scene);
  const auto workers = workers_of(command);
  REQUIRE(workers.size() == 2);
  ::kill(*workers.begin(), SIGSEGV);
  command.expect_out("restart 1\n", 2);
  must_upgrade(scene);
  scene.finish();
  const Ended ended = command.wait();
  CHECK(ended.code == 0);
  CHECK(contains(ended.err, "SIGSEGV"));
  const json told = json::parse(Directory::read(report));
  CHECK(told["state"] == "ended");
  CHECK(told["restarts"] == 1);
  CHECK(told["attempts"].size() == 2);
  CHECK(told["attempts"][0]["failure"]["signal"] == "SIGSEGV");
  command.expect_no_worker_left();
}

TEST_CASE("kill -9 of an upgraded agent ends its workers") {
  const Scene scene;
  Command command(scene.node({"--nproc-per-node=2"}, {worker(), "children", "seat", "hang"}),
                  scene.options());
  command.expect_out("restart 0\n", 2);
  must_upgrade(scene);
  must_upgrade(scene);
  command.signal(SIGKILL);
  CHECK(command.wait_for_exit() == 128 + SIGKILL);
  command.expect_no_process_left();
}

TEST_CASE("signals end an upgraded job, with the usual exit code") {
  const Scene scene;
  Command command(scene.node({"--nproc-per-node=2"}, {worker(), "seat", "hang"}), scene.options());
  command.expect_out("restart 0\n", 2);
  must_upgrade(scene);
  command.signal(SIGTERM);
  CHECK(command.wait().code == 128 + SIGTERM);
  command.expect_no_worker_left();
}

TEST_CASE("a program that cannot continue is refused with the reason, and the old one goes on") {
  const Scene scene;
  Command command(scene.node({"--nproc-per-node=2"}, {worker(), "seat", "count_until", scene.end}),
                  scene.options());
  command.expect_out("restart 0\n", 2);
  const auto workers = workers_of(command);
  scene.install_text("garbage");
  must_refuse(scene, "Exec format error");
  scene.install_text("#!/bin/sh\necho no such version; exit 1\n");
  must_refuse(scene, "no such version");
  scene.install_text("#!/bin/sh\nexit 0\n");
  must_refuse(scene, "is no cpprun");
  scene.install_text("#!/bin/sh\nkill -SEGV $$\n");
  must_refuse(scene, "died of signal 11");
  scene.install_text("#!/bin/sh\necho can continue: 9; exit 1\n");
  must_refuse(scene, "can continue: 9");
  scene.install_text("#!/nowhere/interpreter\n");
  must_refuse(scene, "No such file");
  fs::remove(scene.program);
  must_refuse(scene, "No such file");
  // A version from before, to which the check is an unknown flag.
  scene.install_text("#!/bin/sh\necho \"cpprun: error: unknown flag $1\" >&2; exit 2\n");
  must_refuse(scene, "unknown flag --check-upgrade");
  scene.install(from_build("CPPRUN"));
  fs::permissions(scene.program, fs::perms::owner_read);
  must_refuse(scene, "Permission denied");
  must_refuse(scene, "no node of the job", {"--node", "7"});
  scene.install(from_build("CPPRUN"));
  must_upgrade(scene);
  CHECK(workers_of(command) == workers);
  CHECK(fs::equivalent("/proc/" + std::to_string(command.pid()) + "/exe", scene.program));
  scene.finish();
  const Ended ended = command.wait();
  CHECK(ended.code == 0);
  CHECK(count(ended.err, "the agent was not upgraded") == 9);
  CHECK(count(ended.err, "the agent was upgraded") == 1);
}

TEST_CASE(
    "an upgrade is refused while nodes are missing, and while the workers are being stopped") {
  const Scene scene;
  Command first(scene.node({"--nproc-per-node=1", "--shutdown-timeout=60"},
                           {worker(), "ignore_term", "seat", "hang"}, 2, 0),
                scene.options());
  first.expect_err("waiting");
  must_refuse(scene, "waits for a place in a round");
  Command second(scene.node({"--nproc-per-node=1", "--shutdown-timeout=60"},
                            {worker(), "ignore_term", "seat", "hang"}, 2, 1),
                 scene.options());
  first.expect_out("restart 0\n");
  second.expect_out("restart 0\n");
  first.signal(SIGTERM);
  first.expect_err("stopping the workers");
  must_refuse(scene, "being stopped", {"--node", "0"});
  first.signal(SIGTERM);
  CHECK(first.wait().code == 128 + SIGTERM);
}

TEST_CASE("a job's store keeps its keys, and its clients keep waiting, through upgrades") {
  const Scene scene;
  const std::string fifo = scene.directory.path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  // Rank 1 waits for a key that rank 0 sets after the upgrades.
  Command command(
      scene.node(
          {"--nproc-per-node=2"},
          {"sh", "-c",
           "w=$0; if [ $RANK = 0 ]; then exec $w set early 5 large big 3 find early await " + fifo +
               " set late 7 meet end size big; "
               "else exec $w get early get late meet end size big; fi",
           from_build("CPPRUN_STORE_WORKER")}),
      scene.options());
  command.expect_out("0: early is 5\n");
  command.expect_out("1: early is 5\n");
  for (int i = 0; i < 5; ++i) must_upgrade(scene);
  { const std::ofstream opened(fifo); }
  const Ended ended = command.wait();
  CHECK(ended.code == 0);
  CHECK(contains(ended.out, "1: late is 7\n"));
  CHECK(contains(ended.out, "0: big has 3145728\n"));
  CHECK(contains(ended.out, "1: big has 3145728\n"));
}

TEST_CASE("a store that is too large to be copied is an objection") {
  const Scene scene;
  const std::string fifo = scene.directory.path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  Command command(scene.node({}, {from_build("CPPRUN_STORE_WORKER"), "large", "big", "65", "set",
                                  "written", "1", "get", "written", "await", fifo}),
                  scene.options());
  command.expect_out("written is 1\n");
  must_refuse(scene, "an upgrade can keep at most 64 MiB");
  { const std::ofstream opened(fifo); }
  CHECK(command.wait().code == 0);
}

TEST_CASE("a new version that starts more slowly than the lease lasts is rejected") {
  const Scene scene;
  const Words flags = {"--rdzv-conf=keep_alive_interval=1,keep_alive_max_attempt=3"};
  const Words what = {worker(), "seat", "count_until", scene.end};
  Command first(scene.node(flags, what, 2, 0), scene.options());
  Command second(scene.node(flags, what, 2, 1), scene.options());
  first.expect_out("restart 0\n");
  second.expect_out("restart 0\n");
  // Reads a fifo to which no process writes, for longer than the lease.
  const std::string fifo = scene.directory.path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  scene.install_text("#!/bin/bash\nread -t 4 <>" + fifo + "\nexec " + from_build("CPPRUN") +
                     " \"$@\"\n");
  must_refuse(scene, "without a response", {"--node", "1"});
  scene.finish();
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
}

TEST_CASE(
    "two nodes with a lease of two seconds are upgraded while their workers use the store without "
    "a "
    "pause: every request is carried out once") {
  const Scene scene;
  const Words flags = {"--nproc-per-node=2",
                       "--rdzv-conf=keep_alive_interval=1,keep_alive_max_attempt=2"};
  const std::string fifo = scene.directory.path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const Words what = {
      from_build("CPPRUN_STORE_WORKER"), "add", "n", "30000", "meet", "all", "count", "n"};
  Command first(scene.node(flags, what, 2, 0), scene.options());
  Command second(scene.node(flags, what, 2, 1), scene.options());
  std::size_t done = 0;
  first.expect_err("");
  for (int i = 0; i < 200 && done < 4; ++i) {
    done += scene.upgrade().code == 0 ? 1 : 0;
  }
  const Ended of_first = first.wait();
  const Ended of_second = second.wait();
  CHECK(done > 0);
  CHECK(of_first.code == 0);
  CHECK(of_second.code == 0);
  CHECK(count(of_first.out + of_second.out, "n is 120000\n") == 4);
  CHECK(contains(of_first.err, "the agent was upgraded"));
  CHECK(contains(of_second.err, "the agent was upgraded"));
}

TEST_CASE("upgrades hold the lease: no node is lost, and workers run on for longer than it") {
  const Scene scene;
  const Words flags = {"--nproc-per-node=1",
                       "--rdzv-conf=keep_alive_interval=1,keep_alive_max_attempt=1"};
  const Words what = {worker(), "seat", "pid", "count_until", scene.end};
  Command first(scene.node(flags, what, 2, 0), scene.options());
  Command second(scene.node(flags, what, 2, 1), scene.options());
  first.expect_out("restart 0\n");
  second.expect_out("restart 0\n");
  const auto workers = workers_of(first);
  for (int i = 0; i < 10; ++i) must_upgrade(scene);
  CHECK(workers_of(first) == workers);
  scene.finish();
  const Ended of_first = first.wait();
  const Ended of_second = second.wait();
  INFO("first: ", of_first.err, "second: ", of_second.err);
  CHECK(of_first.code == 0);
  CHECK(of_second.code == 0);
  CHECK(count(of_first.err, "the agent was upgraded (") == 10);
  CHECK(count(of_second.err, "the agent was upgraded (") == 10);
  CHECK(!contains(of_first.err, "is lost"));
  CHECK(!contains(of_second.err, "rejoining"));
  CHECK(check_lines(of_second.out, 1) > 0);
}

}  // namespace upgrade_test
