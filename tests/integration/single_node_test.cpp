// SPDX-License-Identifier: BSD-3-Clause
// One machine: how a job ends, what is printed about it, and that no process outlives it.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string_view>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace single_node_test {

using namespace cpprun::integration;

namespace {

// --no-python, so that the worker is executed whatever its name; two of them.
Words two_workers(const Words& options, const Words& actions) {
  Words words = {"--standalone", "--nproc-per-node=2"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("--no-python");
  words.push_back(worker());
  words.insert(words.end(), actions.begin(), actions.end());
  return with_cpprun(words);
}

// Otherwise a note says that it was set for them.
const Options quiet{.variables = {{"OMP_NUM_THREADS", "1"}}};

std::string fifo(const Directory& directory, const std::string& name) {
  const auto path = directory.path() + "/" + name;
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  return path;
}

// Opening it waits for the process that waits behind it.
void ring(const std::string& bell) {
  std::ofstream(bell) << "\n";
}

// Reads batches from a child of its own. To save it needs more of them than the pipe holds.
const std::string with_loader = R"(
exec 3< <(while :; do printf '%01000d\n' 0; done)
save() {
  i=0
  while [ $i -lt 200 ] && read -r batch <&3; do i=$((i + 1)); done
  [ $i = 200 ] && echo saved $RANK
  exit 0
}
trap save TERM INT
echo ready
while :; do read -r batch <&3; done
)";

// Takes longer to save than a sweep takes.
const std::string saves_slowly = R"(
save() {
  i=0
  while [ $i -lt 100000 ]; do i=$((i + 1)); done
  echo saved
  exit 0
}
trap save TERM INT
echo ready
while :; do :; done
)";

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

TEST_CASE("a job whose workers all exit with 0 exits with 0 and prints nothing into a pipe") {
  const auto ended = run(two_workers({}, {"say", "done"}), quiet);
  CHECK(ended.code == 0);
  CHECK(ended.out == "done\ndone\n");
  CHECK(ended.err == "");
}

TEST_CASE("the exit code is that of the worker that failed first") {
  const auto ended = run(two_workers({}, {"only", "1", "exit", "3"}));
  CHECK(ended.code == 3);
}

TEST_CASE("the report names rank, host, pid and cause in plain text") {
  Command job(two_workers({}, {"only", "1", "say_err", "no such file: weights.bin", "exit", "3"}));
  const auto ended = job.wait();
  CHECK(contains(ended.err, "exited with code 3"));
  CHECK(contains(ended.err, host_name()));
  CHECK(contains(ended.err, "rank"));
  CHECK(contains(ended.err, "(local_rank: 1)"));
  CHECK(contains(ended.err, "pid: "));
  CHECK(contains(ended.err, "no such file: weights.bin"));
}

TEST_CASE("a file sets the flags of a job, and its lines can be prefixed with the machine's name") {
  Directory directory;
  const auto file =
      directory.write("job.toml",
                      "standalone = true\nnproc-per-node = 2\ntee = 3\nno-python = true\n"
                      "log-line-prefix-template = '[${rank}@${hostname}] '\n");
  const auto ended =
      run(with_cpprun({"--config", file, "--nproc-per-node=1", worker(), "say", "x"}));
  CHECK(ended.code == 0);
  CHECK(ended.out == "[0@" + host_name() + "] x\n");
}

TEST_CASE("errors in a file, of the command line and of the script are reported together") {
  Directory directory;
  const auto file = directory.write("job.toml", "nprok = 1\nmax-restarts = many\n");
  const auto ended = run(with_cpprun({"--config", file, "--nnodes=0", "--frobnicate", "./gone"}));
  CHECK(ended.code == 2);
  CHECK(ended.err ==
        "cpprun: error: " + file +
            ":1: unknown key \"nprok\"\n"
            "  hint: use the name of a flag; cpprun --help all lists them\n"
            "cpprun: error: unknown flag --frobnicate\n"
            "  hint: cpprun --help all lists the flags\n"
            "cpprun: error: --nnodes=0 is neither a number of nodes, such as 2, nor a range, such "
            "as 2:4\n"
            "cpprun: error: " +
            file +
            ":2: max-restarts=many is not a whole number of at least 0\n"
            "cpprun: error: cannot run \"./gone\": no such file\n"
            "cpprun: nothing was started; cpprun --help all lists the flags\n");
}

TEST_CASE("a segmentation fault is reported as one and ends the job with 139") {
  const auto ended = run(two_workers({}, {"only", "0", "crash"}));
  CHECK(ended.code == 139);
  CHECK(contains(ended.err, "SIGSEGV"));
  CHECK(contains(ended.err, "segmentation fault"));
}

TEST_CASE(
    "a worker that ignores TERM is killed after the grace period, and the job keeps its code") {
  Directory directory;
  const auto bell = directory.path() + "/ignores";
  REQUIRE(::mkfifo(bell.c_str(), 0600) == 0);
  // Rank 1 fails when rank 0 ignores TERM, and not before.
  const std::string script = "trap '' TERM; test $RANK = 1 || { echo > " + bell +
                             "; exec sleep 3600; }; read ready < " + bell + "; exit 7";
  Command job(with_cpprun({"--standalone", "--nproc-per-node=2", "--shutdown-timeout=1",
                           "--no-python", "sh", "-c", script}));
  const auto ended = job.wait();
  CHECK(ended.code == 7);
  CHECK(contains(ended.err, "SIGKILL"));
  job.expect_no_worker_left();
}

TEST_CASE("when one worker fails the others are ended, and none is left") {
  Command job(two_workers({}, {"children", "hang_if_not", "1", "exit", "4"}));
  CHECK(job.wait_for_exit() == 4);
  job.expect_no_worker_left();
}

TEST_CASE("with --stragglers=kill a worker's leftover processes are gone when the job succeeds") {
  Command job(two_workers({"--stragglers=kill"}, {"children", "exit", "0"}));
  CHECK(job.wait_for_exit() == 0);
  job.expect_no_worker_left();
}

TEST_CASE("a copy that outlives a success is named and waited for") {
  const Directory directory;
  const auto bell = fifo(directory, "bell");
  const auto script = directory.write("train", "setsid sh -c 'read x < " + bell + "; echo > " +
                                                   directory.path() + "/copied' & exit 0");
  Command job(with_cpprun({"--standalone", "--no-python", "sh", script}));
  job.expect_err("still runs: pid");
  ring(bell);
  CHECK(job.wait_for_exit() == 0);
  CHECK(directory.entries() == Words{"bell", "copied", "train"});
  job.expect_no_worker_left();
}

TEST_CASE(
    "a copy that outlives a success by more than the grace period is ended, and the job "
    "succeeds") {
  Command job(two_workers({"--shutdown-timeout=1"}, {"ignore_term", "children", "exit", "0"}));
  const auto ended = job.wait();
  CHECK(ended.code == 0);
  CHECK(contains(ended.err, "still running 1.0 s after the workers"));
  job.expect_no_worker_left();
}

TEST_CASE("with --stragglers=leave a copy outlives the job") {
  const Directory directory;
  const auto script = directory.write("train", "setsid sleep 1000 & echo copy $!; exit 0");
  Command job(with_cpprun({"--standalone", "--stragglers=leave", "--no-python", "sh", script}));
  job.expect_out("copy ");
  CHECK(job.wait_for_exit() == 0);
  const pid_t copy = std::stoi(job.out().substr(job.out().find("copy ") + 5));
  CHECK(::kill(copy, 0) == 0);
  ::kill(copy, SIGKILL);
  job.expect_no_process_left();
}

TEST_CASE("a loader lives until its worker has saved, however the job is ended") {
  for (const int signal : {SIGTERM, SIGINT}) {
    const Directory directory;
    Command job(with_cpprun({"--standalone", "--nproc-per-node=2", "--shutdown-timeout=20",
                             "--no-python", "bash", directory.write("train", with_loader)}));
    job.expect_out("ready\n", 2);
    job.signal(signal);
    CHECK(job.wait_for_exit() == 128 + signal);
    job.expect_out("saved 0\n");
    job.expect_out("saved 1\n");
    job.expect_no_worker_left();
  }
}

TEST_CASE("a loader lives until its worker has saved when another worker fails") {
  const Directory directory;
  const auto bell = fifo(directory, "bell");
  const auto script = directory.write(
      "train", "if [ $RANK = 1 ]; then read x < " + bell + "; exit 7; fi\n" + with_loader);
  Command job(with_cpprun({"--standalone", "--nproc-per-node=2", "--shutdown-timeout=20",
                           "--no-python", "bash", script}));
  job.expect_out("ready\n");
  ring(bell);
  CHECK(job.wait_for_exit() == 7);
  job.expect_out("saved 0\n");
  job.expect_no_worker_left();
}

TEST_CASE(
    "a shell that dies of the signal has it passed on to the trainer, with the grace period") {
  for (const std::string_view shell : {"cd /; bash \"$0\"; true", "bash \"$0\" | tee \"$0.log\""}) {
    const Directory directory;
    const auto trainer = directory.write("trainer", saves_slowly);
    Command job(
        with_cpprun({"--standalone", "--no-python", "bash", "-c", std::string(shell), trainer}));
    job.expect_out("ready\n");
    job.signal(SIGTERM);
    CHECK(job.wait_for_exit() == 143);
    job.expect_out("saved\n");
    job.expect_no_worker_left();
  }
}

TEST_CASE("a shell that survives the signal and waits for the trainer has it passed on") {
  struct Wrapper {
    int signal;
    std::string_view shell;
  };
  for (const Wrapper& each : {Wrapper{SIGTERM, "trap 'echo kept' TERM; bash \"$0\"; true"},
                              Wrapper{SIGINT, "bash \"$0\"; true"}}) {
    const Directory directory;
    const auto trainer = directory.write("trainer", saves_slowly);
    Command job(with_cpprun({"--standalone", "--shutdown-timeout=60", "--no-python", "bash", "-c",
                             std::string(each.shell), trainer}));
    job.expect_out("ready\n");
    job.signal(each.signal);
    job.expect_out("saved\n");
    job.wait_for_exit();
    job.expect_no_worker_left();
  }
}

TEST_CASE("with --signal-scope=group all processes of a worker get the signal at once") {
  const Directory directory;
  const auto script = directory.write(
      "train",
      "trap 'wait; echo worker ends; exit 0' TERM; bash -c 'trap \"echo child ends; exit 0\" TERM; "
      "echo ready; while :; do sleep 1000 & wait; done' & wait");
  Command job(with_cpprun({"--standalone", "--signal-scope=group", "--no-python", "bash", script}));
  job.expect_out("ready\n");
  job.signal(SIGTERM);
  CHECK(job.wait_for_exit() == 143);
  job.expect_out("child ends\nworker ends\n");
  job.expect_no_worker_left();
}

TEST_CASE("a worker that is slow to end is reported once, and a second Ctrl-C kills it") {
  Command job(
      two_workers({"--shutdown-timeout=3600"}, {"only", "1", "ignore_int", "say", "here", "hang"}));
  job.expect_out("here\n");
  job.signal(SIGINT);
  job.expect_err(" s for 1 worker (rank 1); Ctrl-C again kills it\n");
  job.signal(SIGINT);
  const auto ended = job.wait();
  CHECK(ended.code == 130);
  CHECK(count(ended.err, "waiting up to") == 1);
  job.expect_no_worker_left();
}

TEST_CASE("kill -9 of cpprun leaves no worker, no grandchild and no process in another session") {
  Command job(two_workers({}, {"children", "say", "here", "hang"}));
  job.expect_out("here\nhere\n");
  REQUIRE(job.relatives().size() >= 6);
  job.signal(SIGKILL);
  CHECK(job.wait_for_exit() == 137);
  job.expect_no_process_left();
}

TEST_CASE("kill -9 of cpprun ends workers that ignore TERM too") {
  Command job(two_workers({}, {"ignore_term", "children", "say", "here", "hang"}));
  job.expect_out("here\nhere\n");
  job.signal(SIGKILL);
  job.wait_for_exit();
  job.expect_no_process_left();
}

TEST_CASE("SIGTERM ends the workers and the job with 143") {
  Command job(two_workers({}, {"say", "here", "hang"}));
  job.expect_out("here\nhere\n");
  job.signal(SIGTERM);
  CHECK(job.wait_for_exit() == 143);
  job.expect_no_worker_left();
}

TEST_CASE("Ctrl-C on a terminal ends the workers and the job with 130") {
  if (const auto reason = no_terminal(); !reason.empty()) return skip(reason);
  Command job(two_workers({}, {"say", "here", "hang"}), {.variables = {}, .on_terminal = true});
  job.expect_out("here\r\n");
  job.type("\x03");
  CHECK(job.wait_for_exit() == 130);
  job.expect_no_worker_left();
}

TEST_CASE("a second Ctrl-C does not wait for the grace period") {
  // The grace period is longer than this test's timeout: only the second Ctrl-C can end it.
  Command job(two_workers({"--shutdown-timeout=3600"}, {"ignore_term", "say", "here", "hang"}));
  job.expect_out("here\nhere\n");
  job.signal(SIGTERM);
  job.expect_err("SIGTERM");
  job.signal(SIGTERM);
  CHECK(job.wait_for_exit() == 143);
  job.expect_no_worker_left();
}

TEST_CASE("SIGHUP and SIGQUIT end a job like the others, unless the list omits them") {
  Command hung_up(two_workers({}, {"say", "here", "hang"}));
  hung_up.expect_out("here\nhere\n");
  hung_up.signal(SIGHUP);
  CHECK(hung_up.wait_for_exit() == 129);
  hung_up.expect_no_worker_left();
  // Not handled: the signal has its default effect, and still no process is left.
  Command unhandled(two_workers({"--signals-to-handle=SIGTERM"}, {"say", "here", "hang"}));
  unhandled.expect_out("here\nhere\n");
  unhandled.signal(SIGHUP);
  CHECK(unhandled.wait_for_exit() == 129);
  unhandled.expect_no_process_left();
}

TEST_CASE("the start is announced on a terminal, and not in a pipe") {
  if (const auto reason = no_terminal(); !reason.empty()) return skip(reason);
  const auto on_terminal =
      run(two_workers({}, {"exit", "0"}), {.variables = {}, .on_terminal = true});
  CHECK(contains(on_terminal.out, "2 workers"));
  CHECK(run(two_workers({}, {"exit", "0"}), quiet).err == "");
}

TEST_CASE("a program that cannot be executed is reported before anything starts, with a hint") {
  const auto ended = run(with_cpprun({"--standalone", "--no-python", "/etc/passwd"}));
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "\"/etc/passwd\""));
  CHECK(contains(ended.err, "not executable"));
}

TEST_CASE("a program that the kernel rejects is reported with its stage and reason") {
  Directory directory;
  const auto program = directory.write("train", "#!/no/such/interpreter\n");
  directory.make_executable("train");
  const auto ended = run(with_cpprun({"--standalone", program}));
  CHECK(ended.code == 127);
  CHECK(contains(ended.err, program));
  CHECK(contains(ended.err, "could not be started"));
  CHECK(contains(ended.err, "No such file or directory"));
}

TEST_CASE("a worker that fails is restarted within the budget, and the count says so") {
  // The first attempt fails on every rank, the second finds the count raised.
  const std::string script =
      "echo attempt $TORCHELASTIC_RESTART_COUNT; test $TORCHELASTIC_RESTART_COUNT = 1 || exit 5";
  const auto ended = run(with_cpprun({"--standalone", "--nproc-per-node=2", "--max-restarts=1",
                                      "--no-python", "sh", "-c", script}));
  CHECK(ended.code == 0);
  CHECK(count(ended.out, "attempt 1\n") == 2);
}

TEST_CASE("when the budget is used up the last failure's code is the job's") {
  const auto ended = run(two_workers({"--max-restarts=2"}, {"say", "tried", "exit", "6"}));
  CHECK(ended.code == 6);
  CHECK(count(ended.out, "tried\n") >= 3);
}

}  // namespace single_node_test
