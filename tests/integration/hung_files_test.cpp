// SPDX-License-Identifier: BSD-3-Clause
// Files that a user names, on a disk that hangs. Neither the end of the other workers nor of the
// job nor of cpprun waits for it, and cpprun reports what could not be written.

#include <doctest/doctest.h>

#include <csignal>
#include <fstream>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/disks.h"

namespace hung_files_test {

using namespace cpprun::integration;

namespace {

// Two workers; the second acts when the bell rings, which is on a healthy disk, and the first runs
// until it is asked to end.
struct Job {
  explicit Job(const FreezingDisk& its) : disk(its) { REQUIRE(run({"mkfifo", bell}).code == 0); }
  Words words(const Words& flags, const Words& deed) const {
    Words all = {"--standalone", "--nproc-per-node=2"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Words program = {"--no-python", worker(), "say_err", "ready",
                           "hang_if_not", "1",      "await",   bell};
    all.insert(all.end(), program.begin(), program.end());
    all.insert(all.end(), deed.begin(), deed.end());
    return with_cpprun(all);
  }
  void ring() const { std::ofstream ringing(bell); }
  const FreezingDisk& disk;
  Directory place;
  std::string bell = place.path() + "/bell";
};

// Waits for the job's own output, then the disk hangs, and then rank 1 exits.
void expect_end(const Job& job, Command& command, int code, const std::string& said) {
  command.expect_err("ready", 2);
  const FreezingDisk::Frozen frozen(job.disk);
  job.ring();
  const Ended ended = command.wait();
  CHECK(ended.code == code);
  CHECK_MESSAGE(contains(ended.err, said), ended.err);
}

}  // namespace

TEST_CASE("a report on a disk that hangs delays neither the end of the workers nor of cpprun") {
  const FreezingDisk disk;
  if (!disk.why_not().empty()) return skip(disk.why_not());
  const Job job(disk);
  Command command(job.words({"--report=" + disk.path() + "/report.json"}, {"exit", "4"}));
  expect_end(job, command, 4, "--report: ");
}

TEST_CASE("events on a disk that hangs delay neither the end of the workers nor of cpprun") {
  const FreezingDisk disk;
  if (!disk.why_not().empty()) return skip(disk.why_not());
  const Job job(disk);
  Command command(job.words({"--events=" + disk.path() + "/events.jsonl"}, {"exit", "4"}));
  expect_end(job, command, 4, "--events: ");
}

TEST_CASE("log files on a disk that hangs delay neither the end of the workers nor of cpprun") {
  const FreezingDisk disk;
  if (!disk.why_not().empty()) return skip(disk.why_not());
  const Job job(disk);
  // More than the memory that buffers for the disk: the worker is blocked no longer than reported.
  Command command(job.words({"--tee=3", "--log-dir=" + disk.path()},
                            {"flood", "8000000", "say", "flooded", "exit", "4"}));
  expect_end(job, command, 4, "the log files");
}

TEST_CASE("a worker whose log files cannot be opened on a disk that hangs is not started") {
  const FreezingDisk disk;
  if (!disk.why_not().empty()) return skip(disk.why_not());
  const Job job(disk);
  // The file of the worker's own output, which a restart opens again.
  Command command(
      job.words({"--redirects=1", "--log-dir=" + disk.path(), "--max-restarts=1"}, {"exit", "4"}));
  expect_end(job, command, 126, "its disk does not respond");
}

TEST_CASE("a console that is a file on a disk that hangs does not delay the end of cpprun") {
  const FreezingDisk disk;
  if (!disk.why_not().empty()) return skip(disk.why_not());
  const Job job(disk);
  Words words = {"sh", "-c", "exec \"$@\" 2> '" + disk.path() + "/err'", "sh"};
  for (const auto& word : with_cpprun({"--standalone", "--no-python", worker(), "say", "ready",
                                       "await", job.bell, "say_err", "words", "exit", "4"})) {
    words.push_back(word);
  }
  Command command(words);
  command.expect_out("ready");
  const FreezingDisk::Frozen frozen(disk);
  job.ring();
  CHECK(command.wait_for_exit() == 4);
}

TEST_CASE("evidence on a disk that hangs in the kernel does not delay the end of cpprun") {
  const SilentDisk disk(SilentDisk::Speaks::once);
  if (!disk.mounted()) return skip("no permission to mount a file system of our own (/dev/fuse)");
  const Directory logs;
  Command job(
      with_cpprun({"--standalone", "--nproc-per-node=2", "--log-dir=" + logs.path(),
                   "--redirects=3", "--no-python", worker(), "hang_if_not", "1", "exit", "4"}),
      {.variables = {{"TMPDIR", disk.path()}}});
  job.expect_err("could not be read within");
  CHECK(job.wait_for_exit() == 4);
  CHECK(contains(job.err(), "exited with code 4"));
}

TEST_CASE(
    "a daemon whose log is on a disk that hangs closes unidentified connections, and ends on "
    "SIGTERM") {
  const FreezingDisk disk;
  if (!disk.why_not().empty()) return skip(disk.why_not());
  const auto port = std::to_string(free_port());
  Command daemon(
      {"sh", "-c",
       "exec '" + from_build("CPPRUND") + "' --port=" + port + " 2> '" + disk.path() + "/log'"});
  daemon.expect_out("listening on");
  const FreezingDisk::Frozen frozen(disk);
  // The first is logged, the second is answered all the same.
  for (int i = 0; i < 2; ++i) {
    const auto unidentified = "exec 3<>/dev/tcp/127.0.0.1/" + port + "; echo SSH-2.0 >&3; cat <&3";
    CHECK(run({"timeout", "30", "bash", "-c", unidentified}).code == 0);
  }
  daemon.signal(SIGTERM);
  CHECK(daemon.wait_for_exit() == 0);
}

TEST_CASE("a daemon whose TMPDIR is on a disk that hangs has its control socket in /tmp") {
  const SilentDisk disk;
  if (!disk.mounted()) return skip("no permission to mount a file system of our own (/dev/fuse)");
  Command daemon(
      {"sh", "-c",
       "unset XDG_RUNTIME_DIR; exec '" + from_build("CPPRUND") + "' --host=127.0.0.1 --port=0"},
      {.variables = {{"TMPDIR", disk.path()}}});
  daemon.expect_out("listening on");
  daemon.expect_err("no file access except the control socket");
  daemon.signal(SIGTERM);
  CHECK(daemon.wait_for_exit() == 0);
}

TEST_CASE("a temporary directory on a disk that hangs is reported before anything starts") {
  const SilentDisk disk;
  if (!disk.mounted()) return skip("no permission to mount a file system of our own (/dev/fuse)");
  const auto ended = run(with_cpprun({"--standalone", "--no-python", worker(), "say", "started"}),
                         {.variables = {{"TMPDIR", disk.path()}}});
  CHECK(ended.code == 1);
  CHECK_MESSAGE(contains(ended.err, "cannot create directory \"" + disk.path()), ended.err);
  CHECK(contains(ended.err, "its disk does not respond; use another one with TMPDIR"));
  CHECK_FALSE(contains(ended.out, "started"));
}

TEST_CASE("a temporary directory whose disk hangs later delays no end") {
  const FreezingDisk disk;
  if (!disk.why_not().empty()) return skip(disk.why_not());
  const Job job(disk);
  Command command(job.words({}, {"exit", "4"}), {.variables = {{"TMPDIR", disk.path()}}});
  expect_end(job, command, 4, "exited with code 4");
  // The watchdog, which has waited for the disk, removes the directory now.
  command.expect_no_process_left();
  CHECK(disk.job_directories() == Words{});
}

TEST_CASE("a path that hangs before the start is rejected with its flag, and nothing starts") {
  const SilentDisk disk;
  if (!disk.mounted()) return skip("no permission to mount a file system of our own (/dev/fuse)");
  for (const std::string flag : {"--report", "--events", "--log-dir"}) {
    Command job(with_cpprun({"--standalone", flag + "=" + disk.path() + "/x", "--redirects=3",
                             "--no-python", worker(), "say", "started"}));
    const Ended ended = job.wait();
    CHECK_MESSAGE(ended.code != 0, flag);
    CHECK_MESSAGE(contains(ended.err, flag + ": "), ended.err);
    CHECK_MESSAGE(contains(ended.err, "its disk does not respond"), ended.err);
    CHECK_FALSE(contains(ended.out, "started"));
  }
}

}  // namespace hung_files_test
