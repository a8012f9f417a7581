// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/causes.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>

namespace cause_rules_test {

using namespace cpprun;

namespace {

using Lines = std::vector<std::string>;

Evidence ended(link::ExitStatus status, int our_signal = 0) {
  Evidence evidence;
  evidence.outcome.pid = 42;
  evidence.outcome.status = status;
  evidence.outcome.our_signal = our_signal;
  return evidence;
}

std::string_view after_saying(const Lines& lines, link::ExitStatus status = {false, 1},
                              int our_signal = 0) {
  return judge_cause(ended(status, our_signal), {.recorded = "", .lines = lines}).cause;
}

std::string_view not_started(SpawnStage stage, int error_number,
                             ExecFault fault = ExecFault::none) {
  auto evidence = ended({false, 126});
  evidence.outcome.spawn_error = SpawnError{stage, error_number};
  evidence.host_facts.exec_fault = fault;
  return judge_cause(evidence, {}).cause;
}

}  // namespace

TEST_CASE("a timeout of PyTorch's process groups is known by its line") {
  for (
      const std::string_view line :
      {"[rank0]: RuntimeError: [/g/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting "
       "4000ms for recv operation to complete",
       "[rank0]:[E1129 11:37:42.037 ProcessGroupGloo.cpp:67] [Rank 0]: Rank 1 failed to pass "
       "monitoredBarrier in 3000 ms",
       "[rank2]:[E630 09:00:01.1 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective "
       "operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE) ran for 600025 milliseconds",
       "[rank6]:[E703 21:51:54.1 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID 0(default_pg) Rank 6] "
       "Received a dump signal due to a collective timeout from  rank 7 and we will try our best",
       "[rank1]:[E901 09:00:01.1 WorkNCCL.cpp:131] [nccl2 rank 1] Operation timed out after 600001 "
       "ms",
       "[rank1]:[E901 09:00:01.2 ProcessGroupNCCL.cpp:300] Aborting process due to timeout"}) {
    CAPTURE(line);
    CHECK(shows_timeout(line));
    CHECK(cause_of_words(line) == "peer_silent");
  }
  const std::string_view store = "DistStoreError: wait timeout after 300000ms, keys: /default_pg/0";
  CHECK(shows_timeout(store));
  CHECK(cause_of_words(store) == "peer_missing");
  for (const std::string_view line :
       {"[rank0]:[W1129 11:37:42.0 socket.cpp:1] gloo: connect timed out, retrying",
        "TimeoutError: Timed out after 30 s waiting for https://example.org",
        "[rank0]: RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:2487",
        "torch.OutOfMemoryError: CUDA out of memory", ""}) {
    CAPTURE(line);
    CHECK_FALSE(shows_timeout(line));
  }
}

TEST_CASE("a worker gave up waiting for others if its last line says so") {
  const std::string lost = "[rank0]: RuntimeError: [pair.cc:553] Connection closed by peer";
  CHECK(gave_up_waiting({"step 4", lost}, /*has_exited=*/false));
  CHECK(gave_up_waiting({lost, "[rank0]:[W1129 11:37:42.0 a.cpp:1] Warning: not destroyed"},
                        /*has_exited=*/false));
  CHECK_FALSE(gave_up_waiting({lost, "trying again"}, /*has_exited=*/false));
  CHECK(gave_up_waiting({lost, "frame #1: abort"}, /*has_exited=*/true));
  CHECK(gave_up_waiting({"DistStoreError: wait timeout after 300000ms, keys: /default_pg/0"},
                        /*has_exited=*/false));
  CHECK_FALSE(gave_up_waiting({"KeyError: 'x'"}, /*has_exited=*/true));
  CHECK_FALSE(gave_up_waiting({}, /*has_exited=*/true));
}

TEST_CASE("the last exception of a chain is the cause") {
  CHECK(after_saying({"Traceback (most recent call last):", "  File \"a.py\", line 1, in f",
                      "ConnectionResetError: Connection reset by peer", "",
                      "During handling of the above exception, another exception occurred:", "",
                      "Traceback (most recent call last):", "  File \"a.py\", line 3, in f",
                      "ValueError: the checkpoint has no epoch"}) == "python_exception");
}

TEST_CASE("a background thread's error after the exception is not the cause") {
  const Lines lines = {"[rank0]: Traceback (most recent call last):",
                       "[rank0]:   File \"a.py\", line 1, in <module>", "[rank0]: KeyError: 'loss'",
                       "[rank0]:[W1121 08:05:42.1 TCPStore.cpp:138] recvValue failed: Connection "
                       "reset by peer"};
  CHECK(after_saying(lines) == "python_exception");
  CHECK(python_exception(lines) == "KeyError: 'loss'");
}

TEST_CASE("an exception's further lines have precedence over its first") {
  CHECK(after_saying({"Traceback (most recent call last):", "  File \"a.py\", line 1",
                      "torch.distributed.DistBackendError: NCCL error in: x.cpp:1333",
                      "ncclRemoteError: A call failed possibly due to a network error",
                      "Last error:", "Connection closed by remote peer"}) == "peer_gone");
}

TEST_CASE("two ranks on one GPU are recognised by the last line of NCCL's error") {
  CHECK(after_saying({"[rank1]: Traceback (most recent call last):",
                      "[rank1]:   File \"train.py\", line 6, in <module>",
                      "[rank1]: torch.distributed.DistBackendError: NCCL error in: x.cpp:94, "
                      "invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.28.9",
                      "[rank1]: ncclInvalidUsage: This usually reflects invalid usage of NCCL "
                      "library.",
                      "[rank1]: Last error:",
                      "[rank1]: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device "
                      "a000"}) == "cuda_device_number");
}

TEST_CASE("a C++ exception's message is found above the frames of its stack") {
  Lines lines = {"terminate called after throwing an instance of 'gloo::IoException'",
                 "  what():  [pair.cc:538] Connection closed by peer [127.0.0.1]:1234"};
  for (int i = 0; i < 40; ++i) lines.push_back("frame #" + std::to_string(i) + ": ??");
  CHECK(after_saying(lines, {true, SIGABRT}) == "peer_gone");
  lines[1] = "  what():  the weights are wrong";
  const auto verdict = judge_cause(ended({true, SIGABRT}), {.recorded = "", .lines = lines});
  CHECK(verdict.cause == "cpp_exception");
  CHECK(verdict.line == "  what():  the weights are wrong");
}

TEST_CASE("the error file takes precedence over the last lines") {
  const Lines noise = {"Connection reset by peer"};
  const auto verdict = judge_cause(
      ended({false, 1}),
      {.recorded = "ValueError: no such column", .recorder = Recorder::python, .lines = noise});
  CHECK(verdict.cause == "python_exception");
  CHECK(
      judge_cause(ended({false, 1}),
                  {.recorded = "RuntimeError: CUDA out of memory. Tried to allocate", .lines = {}})
          .cause == "cuda_out_of_memory");
}

TEST_CASE("SIGKILL is out of memory if the kernel counted it, and an outside kill otherwise") {
  auto evidence = ended({true, SIGKILL});
  CHECK(judge_cause(evidence, {}).cause == "killed");
  evidence.host_facts.oom_kills = 1;
  CHECK(judge_cause(evidence, {}).cause == "out_of_memory");
  // A shell that ran the program exits with 137 instead.
  evidence.outcome.status = {false, 137};
  CHECK(judge_cause(evidence, {}).cause == "out_of_memory");
}

TEST_CASE("SIGBUS means a full /dev/shm if it is full, and mapped memory otherwise") {
  auto evidence = ended({true, SIGBUS});
  CHECK(judge_cause(evidence, {}).cause == "bus_error");
  evidence.host_facts.full_disks = {"/var/log"};
  CHECK(judge_cause(evidence, {}).cause == "disk_full");
  evidence.host_facts.full_disks = {"/var/log", "/dev/shm"};
  CHECK(judge_cause(evidence, {}).cause == "shared_memory_full");
}

TEST_CASE("a worker's last lines before a crash do not explain the crash") {
  CHECK(after_saying({"Connection reset by peer"}, {true, SIGSEGV}) == "segfault");
  CHECK(after_saying({"No space left on device"}, {true, SIGILL}) == "wrong_cpu");
  CHECK(after_saying({"free(): invalid pointer"}, {true, SIGABRT}) == "memory_corrupted");
}

TEST_CASE("a worker that exits as signalled was stopped by cpprun, a failing worker was not") {
  CHECK(after_saying({}, {true, SIGTERM}, SIGTERM) == "told_to_end");
  CHECK(after_saying({}, {false, 1}, SIGTERM) == "told_to_end");
  CHECK(after_saying({}, {true, SIGKILL}, SIGKILL) == "told_to_end");
  CHECK(after_saying({"Traceback (most recent call last):", "  f", "KeyboardInterrupt"}, {false, 1},
                     SIGINT) == "told_to_end");
  CHECK(after_saying({"Traceback (most recent call last):", "  f", "ValueError: bad"}, {false, 1},
                     SIGTERM) == "python_exception");
  CHECK(after_saying({"Connection closed by peer"}, {false, 1}, SIGTERM) == "peer_gone");
  CHECK(after_saying({}, {true, SIGSEGV}, SIGTERM) == "segfault");
  CHECK(after_saying({}, {true, SIGKILL}, SIGTERM) == "killed");
  // No rule names this signal.
  CHECK(after_saying({}, {true, SIGALRM}, SIGTERM) == "signalled");
}

TEST_CASE("a failed exec is explained by the fault of the file, else by the errno") {
  CHECK(not_started(SpawnStage::exec, ENOENT) == "program_missing");
  CHECK(not_started(SpawnStage::exec, ENOENT, ExecFault::missing_interpreter) ==
        "interpreter_missing");
  CHECK(not_started(SpawnStage::exec, EACCES) == "not_executable");
  CHECK(not_started(SpawnStage::exec, EACCES, ExecFault::noexec_mount) == "noexec_mount");
  CHECK(not_started(SpawnStage::exec, ENOEXEC, ExecFault::wrong_machine) == "wrong_machine");
  CHECK(not_started(SpawnStage::exec, ENOEXEC) == "not_a_program");
  CHECK(not_started(SpawnStage::exec, ELOOP) == "not_started");
}

TEST_CASE("an errno of the log file does not blame the program") {
  CHECK(not_started(SpawnStage::stderr_target, EACCES) == "log_folder_unwritable");
  CHECK(not_started(SpawnStage::log_directory, ENOSPC) == "disk_full");
  CHECK(not_started(SpawnStage::clone, EAGAIN) == "too_many_processes");
  CHECK(not_started(SpawnStage::pipes, EMFILE) == "too_many_files");
}

TEST_CASE("an exit without output is explained by its code, if that has a meaning") {
  CHECK(after_saying({}, {false, 3}) == "silent_exit");
  CHECK(after_saying({"loading"}, {false, 127}) == "command_missing");
  CHECK(after_saying({}, {true, SIGUSR1}) == "signalled");
  CHECK(after_saying({}, {false, 0}).empty());
}

TEST_CASE("a process that survives KILL is stuck in the kernel") {
  auto evidence = ended({true, SIGKILL}, SIGKILL);
  evidence.outcome.given_up = true;
  CHECK(judge_cause(evidence, {}).cause == "stuck_in_kernel");
}

TEST_CASE("a suspected interface is the cause if the workers fail as it would make them") {
  const auto judged = [](const Lines& lines, link::ExitStatus status = {false, 1}) {
    auto evidence = ended(status);
    evidence.host_facts.unreachable_interface = "GLOO_SOCKET_IFNAME=lo: lo is a loopback interface";
    return judge_cause(evidence, {.recorded = "", .lines = lines}).cause;
  };
  CHECK(judged({"RuntimeError: Gloo connectFullMesh failed: Connection refused"}) ==
        "stray_interface");
  CHECK(judged({"connect: Network is unreachable"}) == "stray_interface");
  CHECK(judged({}) == "stray_interface");
  CHECK(judged({}, {false, 7}) == "silent_exit");
  CHECK(judged({}, {true, SIGSEGV}) == "segfault");
  CHECK(judged({"Traceback (most recent call last):", "  File \"a.py\", line 1",
                "KeyError: 'loss'"}) == "python_exception");
  CHECK(after_saying({"connect: Network is unreachable"}) == "network_unreachable");
}

}  // namespace cause_rules_test
