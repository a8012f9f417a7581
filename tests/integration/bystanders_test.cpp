// SPDX-License-Identifier: BSD-3-Clause
// What cpprun may kill and what it may not: everything that a worker has started, however it hides,
// and nothing else.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace bystanders_test {

using namespace cpprun::integration;

namespace {

// Its first attempt fails, its second does not.
const char* const fails_once = "test $TORCHELASTIC_RESTART_COUNT = 1 || exit 5";

// Leaves a process with an empty environment in a session of its own, which runs when this prints.
// ($$ in an argument is a plain $, here as under torchrun.)
const char* const hides = "env -i setsid sh -c 'echo hidden $$$$; exec sleep 1000' & sleep 1000";

Words cpprun_of(const std::string& script, int restarts = 0) {
  return with_cpprun({"--standalone", "--max-restarts=" + std::to_string(restarts),
                      "--stragglers=kill", "--no-python", "sh", "-c", script});
}

// The shell's script, in which "$@" is cpprun.
Words shell(const std::string& script, const Words& cpprun) {
  Words words = {"bash", "-c", script, "shell"};
  words.insert(words.end(), cpprun.begin(), cpprun.end());
  return words;
}

std::string name_of(pid_t pid) {
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
  return name;
}

char state_of(pid_t pid) {
  std::string line;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), line);
  const auto bracket = line.rfind(") ");
  return bracket == std::string::npos ? 'X' : line[bracket + 2];
}

bool lives(pid_t pid) {
  return state_of(pid) != 'X' && state_of(pid) != 'Z';
}

// "side-car 42\n"
pid_t pid_after(const std::string& text, const std::string& word) {
  const auto at = text.find(word + " ");
  REQUIRE(at != std::string::npos);
  return std::stoi(text.substr(at + word.size() + 1));
}

bool has(const std::string& program) {
  return run({"sh", "-c", "command -v " + program}).code == 0;
}

std::string fifo(const Directory& directory, const std::string& name) {
  const auto path = directory.path() + "/" + name;
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  return path;
}

}  // namespace

TEST_CASE(
    "the tee of a shell that exec'd cpprun receives output until the job ends, over restarts") {
  const Directory directory;
  const auto log = directory.path() + "/job.log";
  const std::string script = "exec > >(tee " + log + ") 2>&1; exec \"$@\"";
  const auto ended = run(shell(script, cpprun_of("echo attempt $TORCHELASTIC_RESTART_COUNT; " +
                                                     std::string(fails_once) + "; exit 6",
                                                 2)));
  CHECK(ended.code == 5);
  const auto said = Directory::read(log);
  CHECK(contains(said, "attempt 0\n"));
  CHECK(contains(said, "attempt 2\n"));
  CHECK(contains(said, "exited with code 5"));
}

TEST_CASE(
    "a side-car that was started before the job outlives it, whether the job succeeds or "
    "fails") {
  for (const int code : {0, 7}) {
    Command job(shell("sleep 1000 & echo side-car $!; exec \"$@\"",
                      cpprun_of("setsid sleep 1000 & exit " + std::to_string(code))));
    job.expect_out("side-car");
    const pid_t side_car = pid_after(job.out(), "side-car");
    CHECK(job.wait_for_exit() == code);
    CHECK(lives(side_car));
    ::kill(side_car, SIGKILL);
    job.expect_no_process_left();
  }
}

TEST_CASE("cpprun does not kill the processes that a side-car leaves behind") {
  const Directory directory;
  const auto bell = fifo(directory, "bell");
  const auto answer = fifo(directory, "answer");
  const std::string side_car = "(read x < " + bell +
                               "; setsid sleep 1000 & echo orphan $!; echo > " + answer +
                               ") & exec \"$@\"";
  Command job(shell(side_car, cpprun_of("test $TORCHELASTIC_RESTART_COUNT = 1 && exit 0; echo > " +
                                            bell + "; read x < " + answer + "; exit 5",
                                        1)));
  CHECK(job.wait_for_exit() == 0);
  job.expect_out("orphan");
  const pid_t orphan = pid_after(job.out(), "orphan");
  CHECK(lives(orphan));
  ::kill(orphan, SIGKILL);
  job.expect_no_process_left();
}

TEST_CASE("an ssh-agent that started cpprun serves the workers of every attempt") {
  if (!has("ssh-agent") || !has("ssh-add")) return skip("no ssh-agent here");
  Words words = {"ssh-agent"};
  // 1: the agent has no key; 2: there is no agent.
  const Words cpprun =
      cpprun_of("ssh-add -l; test $? = 1 || exit 9; " + std::string(fails_once), 1);
  words.insert(words.end(), cpprun.begin(), cpprun.end());
  Command job(words);
  CHECK(job.wait_for_exit() == 0);
  job.expect_no_process_left();
}

TEST_CASE("the first process of a container does not kill processes that were brought into it") {
  const Directory directory;
  const auto bell = fifo(directory, "bell");
  Words words = {"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"};
  const Words cpprun = cpprun_of("echo attempt $TORCHELASTIC_RESTART_COUNT; read x < " + bell +
                                     "; setsid sleep 1000 & " + fails_once,
                                 1);
  words.insert(words.end(), cpprun.begin(), cpprun.end());
  if (run({"unshare", "--pid", "--fork", "--mount-proc", "true"}).code != 0) {
    return skip("no permission to make a pid namespace");
  }
  Command job(words);
  job.expect_out("attempt 0\n");
  pid_t first = 0;
  for (const pid_t each : job.relatives()) first = name_of(each) == "cpprun" ? each : first;
  REQUIRE(first != 0);
  Command visitor({"nsenter", "--target", std::to_string(first), "--pid", "--mount", "sh", "-c",
                   "setsid sleep 1000 & echo here"});
  visitor.expect_out("here\n");
  visitor.wait_for_exit();
  // During exec it has no visible environment for a moment.
  auto left = visitor.relatives();
  while (left.empty()) left = visitor.relatives();
  REQUIRE(left.size() == 1);
  const pid_t brought = left.front();
  std::ofstream(bell) << "\n";
  job.expect_out("attempt 1\n");
  CHECK(lives(brought));
  std::ofstream(bell) << "\n";
  CHECK(job.wait_for_exit() == 0);
}

TEST_CASE("kill -9 of cpprun ends a process with no environment and a session of its own") {
  Command job(cpprun_of(hides));
  job.expect_out("hidden");
  const pid_t hidden = pid_after(job.out(), "hidden");
  job.signal(SIGKILL);
  job.wait_for_exit();
  job.expect_no_process_left();
  CHECK(ends_in_time(hidden));
}

TEST_CASE("a job that a worker has submitted outlives cpprun, however cpprun ends") {
  const Directory directory;
  const auto queue = fifo(directory, "queue");
  for (const bool killed : {false, true}) {
    // As sbatch does: the environment travels with the job, and another daemon starts it.
    Command batch_system({"sh", "-c",
                          "read token < " + queue +
                              "; CPPRUN_NODE_TOKEN=$token sleep 1000 & echo started $!; wait"});
    Command job(cpprun_of("echo $CPPRUN_NODE_TOKEN > " + queue + "; echo submitted; " +
                          (killed ? "sleep 1000" : "exit 0")));
    batch_system.expect_out("started");
    const pid_t submitted = pid_after(batch_system.out(), "started");
    job.expect_out("submitted");
    if (killed) job.signal(SIGKILL);
    job.wait_for_exit();
    job.expect_no_process_left();
    CHECK(lives(submitted));
    ::kill(submitted, SIGKILL);
    batch_system.wait_for_exit();
  }
}

TEST_CASE("a watchdog that is killed is replaced, and the new one does the same work") {
  Command job(cpprun_of(hides));
  job.expect_out("hidden");
  pid_t watchdog = 0;
  for (const pid_t each : job.relatives())
    watchdog = name_of(each) == "job-watchdog" ? each : watchdog;
  REQUIRE(watchdog != 0);
  ::kill(watchdog, SIGKILL);
  job.expect_err("another one has taken over");
  job.signal(SIGKILL);
  job.wait_for_exit();
  job.expect_no_process_left();
  CHECK(ends_in_time(pid_after(job.out(), "hidden")));
}

TEST_CASE("on a kernel without pidfds, sweeping, restarting and ending work as on any other") {
  for (const char* error : {"ENOSYS", "EPERM"}) {
    // A descriptor that a careless parent left open, and that no worker may inherit.
    Words words = shell("exec 9< /dev/null; exec \"$@\"", {from_build("CPPRUN_OLD_KERNEL"), error});
    const std::string script =
        "echo attempt $TORCHELASTIC_RESTART_COUNT; (setsid sleep 1000 & echo left $!); "
        "test ! -e /proc/self/fd/9 || exit 9; " +
        std::string(fails_once);
    const Words cpprun = cpprun_of(script, 1);
    words.insert(words.end(), cpprun.begin(), cpprun.end());
    Command job(words);
    const int code = job.wait_for_exit();
    if (code == 77) return skip("no permission to install a filter of system calls");
    CHECK(code == 0);
    job.expect_out("attempt 1\n");
    // No process is given up; that would take ten seconds.
    CHECK_FALSE(contains(job.err(), "could not be"));
    CHECK_FALSE(lives(pid_after(job.out(), "left")));
    job.expect_no_process_left();
  }
}

TEST_CASE("on a kernel without pidfds kill -9 of cpprun leaves no process either") {
  Words words = {from_build("CPPRUN_OLD_KERNEL"), "ENOSYS"};
  const Words cpprun = cpprun_of(hides);
  words.insert(words.end(), cpprun.begin(), cpprun.end());
  Command job(words);
  job.expect_out("hidden");
  job.signal(SIGKILL);
  job.wait_for_exit();
  job.expect_no_process_left();
  CHECK(ends_in_time(pid_after(job.out(), "hidden")));
}

}  // namespace bystanders_test
