// SPDX-License-Identifier: BSD-3-Clause
// A host that has run out of something: disk space, descriptors, processes, a reader of the
// console, a clock that agrees with the others'.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "tests/integration/cluster.h"

namespace exhausted_host_test {

using namespace cpprun::integration;

namespace {

Options in(const Directory& temporary) {
  return {.variables = {{"TMPDIR", temporary.path()}, {"OMP_NUM_THREADS", "1"}}};
}

Words workers(const std::string& count, const Words& flags, const Words& actions) {
  Words words = {"--standalone", "--nproc-per-node=" + count};
  words.insert(words.end(), flags.begin(), flags.end());
  words.push_back(worker());
  words.insert(words.end(), actions.begin(), actions.end());
  return with_cpprun(words);
}

Words operator+(Words before, const Words& after) {
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

// Runs the command with that directory as a small disk of its own, visible to no other process.
Words on_small_disk(const std::string& directory, const std::string& limits) {
  return {"unshare",
          "--mount",
          "sh",
          "-c",
          "mount -t tmpfs -o " + limits + " none \"$0\" && exec \"$@\"",
          directory};
}

// Runs as a user with few processes, and no further ones allowed. The leak sanitizer would need a
// process of its own.
Words with_processes(int count_max) {
  const std::string most = std::to_string(count_max);
  return {"setpriv",       "--reuid=64321",
          "--regid=64321", "--clear-groups",
          "prlimit",       "--nproc=" + most + ":" + most,
          "env",           "ASAN_OPTIONS=detect_leaks=0"};
}

}  // namespace

TEST_CASE("a full log disk is reported once per file, and the job runs to its end") {
  if (const auto why = no_mounts(); !why.empty()) return skip(why);
  const Directory disk;
  const Directory temporary;
  Command job(on_small_disk(disk.path(), "size=256k") +
                  workers("2", {"--log-dir=" + disk.path(), "--tee=1"},
                          {"flood", "2000000", "say", "", "say", "all said"}),
              in(temporary));
  const auto ended = job.wait();
  CHECK(ended.code == 0);
  CHECK(count(ended.out, ":all said\n") == 2);
  CHECK(count(ended.err, "No space left on device") == 2);
  CHECK(contains(ended.err, "attempt_0/0/stdout.log"));
  CHECK(contains(ended.err, "attempt_0/1/stdout.log"));
  job.expect_no_worker_left();
  CHECK(temporary.entries().empty());
}

TEST_CASE("a log file at the file size limit is reported, and the job runs to its end") {
  const Directory directory;
  const auto ended = run({"sh", "-c",
                          "ulimit -f 8; exec " + from_build("CPPRUN") + " --standalone --log-dir=" +
                              directory.path() + " --tee=3 --no-python sh -c 'seq 5000; exit 3'"});
  CHECK(ended.code == 3);
  CHECK(contains(ended.err, "File too large"));
}

TEST_CASE(
    "a worker whose own log file is on a full disk ends with its own code, and so does the "
    "job") {
  if (const auto why = no_mounts(); !why.empty()) return skip(why);
  const Directory disk;
  const Directory temporary;
  Command job(on_small_disk(disk.path(), "size=256k") +
                  workers("2", {"--log-dir=" + disk.path(), "--redirects=1"},
                          {"only", "1", "flood", "2000000"}),
              in(temporary));
  CHECK(job.wait().code == 74);
  job.expect_no_worker_left();
  CHECK(temporary.entries().empty());
}

TEST_CASE(
    "no space for the log directories is an error that names the directory, and nothing "
    "starts") {
  if (const auto why = no_mounts(); !why.empty()) return skip(why);
  const Directory disk;
  const Directory temporary;
  const auto ended =
      run(on_small_disk(disk.path(), "size=64k,nr_inodes=3") +
              workers("2", {"--log-dir=" + disk.path(), "--redirects=3"}, {"say", "started"}),
          in(temporary));
  CHECK(ended.code == 126);
  CHECK(contains(ended.err, "cannot create directory \"" + disk.path()));
  CHECK(contains(ended.err, "No space left on device"));
  CHECK_FALSE(contains(ended.err, "Input/output error"));
  CHECK(temporary.entries().empty());
}

TEST_CASE("a program on a noexec mount is rejected with a message about the mount, not the mode") {
  if (const auto why = no_mounts(); !why.empty()) return skip(why);
  const Directory disk;
  const auto program = disk.path() + "/program";
  const auto started = [&](const std::string& mode) {
    return run(on_small_disk(disk.path(), "size=1m,noexec") +
               Words{"sh", "-c", "cp /bin/true \"$0\" && chmod " + mode + " \"$0\" && exec \"$@\"",
                     program} +
               with_cpprun({"--standalone", program}));
  };
  const auto executable = started("755");
  CHECK(executable.code == 2);
  CHECK(contains(executable.err, "\"" + program + "\": its file system is mounted noexec\n"));
  const auto plain = started("644");
  CHECK(plain.code == 2);
  CHECK(contains(plain.err, "chmod +x"));
}

// A control group below this test's own, of either version, with so much memory.
class MemoryGroup {
 public:
  explicit MemoryGroup(const std::string& bytes) {
    constexpr const char* make = R"(
for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
  case $root in
    */memory) own=$(sed -n 's/^[0-9]*:[a-z,]*memory[a-z,]*://p' /proc/self/cgroup)
              limit=limit_in_bytes ;;
    *) own=$(sed -n 's/^0:://p' /proc/self/cgroup) limit=max ;;
  esac
  group=$root$own/cpprun_test_$$
  mkdir "$group" 2>/dev/null || continue
  if test -e "$group/memory.$limit" && echo "$0" >"$group/memory.$limit"; then
    # Whatever fits into swap is not out of memory.
    { echo "$0" >"$group/memory.memsw.limit_in_bytes" || echo 0 >"$group/memory.swap.max" ||
      grep -q '^SwapTotal: *0 kB' /proc/meminfo; } 2>/dev/null && printf %s "$group" && exit
  fi
  rmdir "$group"
done
exit 1
)";
    directory_ = run({"sh", "-c", make, bytes}).out;
  }
  ~MemoryGroup() {
    if (!directory_.empty()) ::rmdir(directory_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool made() const { return !directory_.empty(); }
  Words with(const Words& words) const {
    return Words{"sh", "-c", "echo 0 >\"$0/cgroup.procs\" && exec \"$@\"", directory_} + words;
  }

 private:
  std::string directory_;
};

TEST_CASE("no space in TMPDIR does not prevent the start if /tmp has some") {
  if (const auto why = no_mounts(); !why.empty()) return skip(why);
  const Directory disk;
  const auto ended =
      run(on_small_disk(disk.path(), "size=64k,nr_inodes=1") + workers("2", {}, {"say", "started"}),
          in(disk));
  CHECK(ended.code == 0);
  CHECK(contains(ended.out, "started"));
  CHECK(contains(ended.err, "cpprun: note: TMPDIR=" + disk.path() +
                                " cannot be used (No space left on device); cpprun uses /tmp"));
}

TEST_CASE("a worker that the kernel kills for memory is reported as such, with the limit") {
  // An instrumented cpprun uses a hundred megabytes by itself.
#ifdef __SANITIZE_ADDRESS__
  const MemoryGroup group("536870912");
  const char* const limit = "512 MiB";
#else
  const MemoryGroup group("268435456");
  const char* const limit = "256 MiB";
#endif
  if (!group.made()) return skip("no memory controller that may be used here");
  const Directory temporary;
  Command job(
      group.with(workers("2", {}, {"hang_if_not", "1", "devour", "1073741824", "say", "survived"})),
      in(temporary));
  const auto ended = job.wait();
  CHECK(ended.code == 137);
  CHECK_FALSE(contains(ended.out, "survived"));
  CHECK(contains(ended.err, "rank 1"));
  CHECK(contains(ended.err, limit));
  job.expect_no_process_left();
  CHECK(temporary.entries().empty());
}

TEST_CASE("when descriptors run out the running workers are ended, and the limit is named") {
#ifdef __SANITIZE_ADDRESS__
  return skip("the sanitizer needs descriptors of its own to look at memory");
#else
  const Directory temporary;
  Command job(Words{"prlimit", "--nofile=30:30"} + workers("8", {"--tee=3"}, {"hang"}),
              in(temporary));
  CHECK(job.wait().code == 126);
  job.expect_err("Too many open files");
  job.expect_no_worker_left();
  CHECK(temporary.entries().empty());
#endif
}

TEST_CASE("with too few descriptors for itself cpprun reports it and starts nothing") {
#ifdef __SANITIZE_ADDRESS__
  return skip("the sanitizer needs descriptors of its own to look at memory");
#else
  for (const auto* limit : {"6", "8", "10", "12", "14"}) {
    const Directory temporary;
    Command job(Words{"prlimit", "--nofile=" + std::string(limit) + ":" + limit} +
                    workers("2", {}, {"say", "started"}),
                in(temporary));
    const auto ended = job.wait();
    CHECK(ended.code == 1);
    CHECK(ended.out == "");
    CHECK_MESSAGE(contains(ended.err, "Too many open files"), limit, ": ", ended.err);
    CHECK_MESSAGE(contains(ended.err, "ulimit"), limit, ": ", ended.err);
    job.expect_no_process_left();
    CHECK(temporary.entries().empty());
  }
#endif
}

TEST_CASE("cpprun raises its own descriptor limit, and the workers keep theirs") {
  const Directory temporary;
  const auto ended = run(Words{"prlimit", "--nofile=20:4096"} +
                             with_cpprun({"--standalone", "--nproc-per-node=8", "--tee=3",
                                          "--no-python", "sh", "-c", "ulimit -Sn"}),
                         in(temporary));
  CHECK(ended.code == 0);
  CHECK(count(ended.out, "]:20\n") == 8);
}

TEST_CASE("when processes run out the failed start is reported, and no process is left") {
  const Directory temporary;
  std::filesystem::permissions(temporary.path(), std::filesystem::perms::all);
  const auto may = run(with_processes(8) + Words{"test", "-x", from_build("CPPRUN")});
  if (may.code != 0) return skip("no other user can run the program: " + may.err);
  // cpprun and its watchdog are two; one more is a worker, and the next is one too many.
  for (const int processes : {1, 2, 3}) {
    Command job(with_processes(processes) + workers("2", {}, {"hang"}), in(temporary));
    const auto ended = job.wait();
    CHECK(ended.code == (processes == 1 ? 1 : 126));
    CHECK_MESSAGE(contains(ended.err, "Resource temporarily unavailable"), ended.err);
    job.expect_no_worker_left();
    CHECK(temporary.entries().empty());
  }
}

TEST_CASE("a console without a reader blocks its workers, but neither the node nor the job") {
  const Cluster cluster(3, "2:3");
  if (!cluster.hosts.why_not().empty()) return skip(cluster.hosts.why_not());
  const Words talker = {worker(), "flood", "4000000", "say", "", "seat", "hang"};
  Command first(cluster.node(0), cluster.options());
  Command second(cluster.node(1, {"--tee=3"}, talker), cluster.options());
  Command third(cluster.node(2), cluster.options());
  for (Command* const each : {&first, &third}) each->expect_out(" of 3, restart 0\n");
  // The third node is lost when its lease expires. The second has sent heartbeats all the time; it
  // ends its workers and restarts them, although its console has no reader.
  third.signal(SIGSTOP);
  first.expect_out(" of 2, restart 0\n");
  second.expect_out(" of 2, restart 0\n");
  CHECK_FALSE(contains(first.err(), "node1 is lost"));
  first.signal(SIGTERM);
  CHECK(first.wait().code == 143);
  CHECK(second.wait().code == 143);
  third.signal(SIGCONT);
  third.signal(SIGTERM);
  CHECK(third.wait().code == 143);
  cluster.expect_nothing_left();
}

TEST_CASE("a console without a reader does not exceed the grace period of a stop") {
  const Directory directory;
  const std::string console = directory.path() + "/console";
  REQUIRE(::mkfifo(console.c_str(), 0600) == 0);
  const cpprun::FileDescriptor unread(::open(console.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(unread);
  // Asks for the end and insists after 30 s, as Kubernetes and Slurm do. The shell opens the
  // console, so that nothing stands between it and cpprun.
  Words words = {"timeout",
                 "--foreground",
                 "--kill-after=30",
                 "1000",
                 "sh",
                 "-c",
                 "exec 2>\"$0\"; exec \"$@\"",
                 console};
  for (const auto& word : with_cpprun({"--standalone", "--no-python", "sh", "-c",
                                       "head -c 3000000 /dev/zero >&2; sleep 1000"})) {
    words.push_back(word);
  }
  Command job(words);
  // Full for so long that cpprun has more output than fits.
  const auto is_full = [&unread] {
    int held = 0;
    pollfd room{unread.get(), POLLOUT, 0};
    return ::ioctl(unread.get(), FIONREAD, &held) == 0 && held > 0 && ::poll(&room, 1, 0) == 0;
  };
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (int looks = 0; looks < 100'000 && std::chrono::steady_clock::now() < end;) {
    looks = is_full() ? looks + 1 : 0;
  }
  CHECK(is_full());
  job.signal(SIGTERM);
  CHECK(job.wait_for_exit() == 143);
}

TEST_CASE("hosts whose clocks are forty days apart run and restart a job like any others") {
  const Words elsewhen = {"unshare",     "--time",  "--fork",     "--kill-child",
                          "--monotonic", "3456000", "--boottime", "3456000"};
  if (run(elsewhen + Words{"true"}).code != 0) return skip("no permission to make time namespaces");
  const Directory temporary;
  const std::string port = std::to_string(free_port());
  const auto node = [&](const std::string& rank) {
    return with_cpprun({"--nnodes=2", "--node_rank=" + rank, "--master_addr=127.0.0.1",
                        "--master_port=" + port, "--max-restarts=1", "--no-python", "sh", "-c",
                        "test $TORCHELASTIC_RESTART_COUNT = 1 || test $RANK = 0 || exit 5; "
                        "test $TORCHELASTIC_RESTART_COUNT = 1 || exec sleep 600; echo again"});
  };
  Command first(elsewhen + node("0"), in(temporary));
  Command second(node("1"), in(temporary));
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
  CHECK(contains(first.out(), "again\n"));
  CHECK(contains(second.out(), "again\n"));
  CHECK(temporary.entries().empty());
}

}  // namespace exhausted_host_test
