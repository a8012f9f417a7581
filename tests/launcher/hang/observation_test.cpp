// SPDX-License-Identifier: BSD-3-Clause
// The texts are those of PyTorch 2.13 and Python 3.9 to 3.13, shortened.
#include "launcher/hang/observation.h"

#include <doctest/doctest.h>
#include <sys/syscall.h>

#include <chrono>

namespace hang_observation_test {

using namespace cpprun;
using namespace cpprun::hang;

namespace {

const std::string in_all_reduce =
    "Current thread 0x00007ff293fff6c0 (most recent call first):\n"
    "  <no Python frame>\n"
    "\n"
    "Thread 0x00007ff2b3bd6b80 (most recent call first):\n"
    "  File \"/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", line 3252 "
    "in "
    "all_reduce\n"
    "  File \"/v/lib/python3.11/site-packages/torch/distributed/c10d_logger.py\", line 83 in "
    "wrapper\n"
    "  File \"/a/train.py\", line 15 in run\n"
    "  File \"/a/train.py\", line 89 in <module>\n";

const std::string in_user_code =
    "Current thread 0x00007fa2fbfff6c0 (most recent call first):\n"
    "  <no Python frame>\n"
    "\n"
    "Thread 0x00007fa31c4b2b80 (most recent call first):\n"
    "  File \"/a/data.py\", line 9 in fetch\n"
    "  File \"/a/train.py\", line 14 in run\n";

const std::string in_data_loader =
    "Thread 0x00007f14dbe6cb80 (most recent call first):\n"
    "  File \"/p/lib/python3.11/selectors.py\", line 415 in select\n"
    "  File \"/p/lib/python3.11/multiprocessing/connection.py\", line 947 in wait\n"
    "  File \"/v/lib/python3.11/site-packages/torch/utils/data/dataloader.py\", line 1291 in "
    "_try_get_data\n"
    "  File \"/a/train.py\", line 82 in run\n";

std::string entry(const std::string& group, int sequence, const std::string& operation,
                  bool is_retired) {
  return R"({"collective_seq_id":)" + std::to_string(sequence) +
         R"(,"input_dtypes":["Float"],"input_sizes":[[4,8]],"is_p2p":false,"op_id":4,)"
         R"("p2p_seq_id":0,"pg_id":0,"process_group":)" +
         group + R"(,"profiling_name":"gloo:)" + operation + R"(","retired":)" +
         (is_retired ? "true" : "false") + R"(,"state":"scheduled","timeout_ms":600000})";
}

std::string record(const std::string& entries) {
  return R"({"comm_lib_version":"","entries":[)" + entries +
         R"(],"nccl_comm_state":{},"pg_config":{"":{"desc":"","name":"","ranks":"[0, 1, 2, 3]"}},)"
         R"("pg_status":{"0":{"last_completed_collective":"3","last_enqueued_collective":"4",)"
         R"("last_started_collective":"-1"}},"version":"2.10"})";
}

const std::string default_group = R"(["0","default_pg"])";

Answer answered(std::string body) {
  return {.kind = Answer::Kind::answered, .body = std::move(body)};
}

// A worker whose main thread sleeps in a futex.
Observation observation() {
  return {.local_rank = LocalRank{2},
          .rank = Rank{2},
          .pid = 812,
          .process = {.pid = 812,
                      .parent = 1,
                      .name = "python3",
                      .state = 'S',
                      .threads = {{.tid = 812,
                                   .name = "python3",
                                   .state = 'S',
                                   .wait_channel = "futex_do_wait",
                                   .system_call = SYS_futex}},
                      .thread_count = 1},
          .interval = std::chrono::milliseconds(100),
          .ping = answered(""),
          .traceback = answered(in_user_code),
          .flight_record = answered(record(entry(default_group, 3, "all_reduce", true)))};
}

WorkerEvidence with_call(int system_call) {
  Observation seen = observation();
  seen.process.threads[0].system_call = system_call;
  return evidence_of(seen);
}

}  // namespace

TEST_CASE("the main thread is the last one of a traceback") {
  const auto stacks = parse_traceback(in_all_reduce).value();
  REQUIRE(stacks.size() == 2);
  CHECK_FALSE(stacks[0].is_main);
  CHECK(stacks[0].frames.empty());
  CHECK(stacks[1].is_main);
  REQUIRE(stacks[1].frames.size() == 4);
  CHECK(stacks[1].frames[2] == Frame{"run", "/a/train.py", 15});
  CHECK(place_of(stacks[1].frames) == "run train.py:15");
}

TEST_CASE("names of threads, unknown files and Windows line ends are read") {
  const auto stacks = parse_traceback(
                          "Thread 0x1 [pt_loader] (most recent call first):\r\n"
                          "  Garbage-collecting\r\n"
                          "  File ???, line ??? in f\r\n"
                          "  File \"/a/x, line 3.py\", line 12 in <lambda>\r\n"
                          "  ...\r\n")
                          .value();
  REQUIRE(stacks.size() == 1);
  CHECK(stacks[0].name == "pt_loader");
  CHECK(stacks[0].frames == std::vector<Frame>{{"f", "", 0}, {"<lambda>", "/a/x, line 3.py", 12}});
}

TEST_CASE("where faulthandler has omitted threads, the main thread is not known") {
  const auto stacks = parse_traceback(in_all_reduce + "...\n").value();
  CHECK_FALSE(stacks.back().is_main);
}

TEST_CASE("a C++ worker marks its frames as native") {
  const auto stacks = parse_traceback(
                          "native\nThread 0x5 (most recent call first):\n"
                          "  File \"queue.cpp\", line 7 in Queue::pop\n")
                          .value();
  REQUIRE(stacks.size() == 1);
  CHECK(stacks[0].is_native);
  CHECK(stacks[0].frames == std::vector<Frame>{{"Queue::pop", "queue.cpp", 7}});
}

TEST_CASE("an answer that is not a traceback is an error") {
  for (const char* text : {"", "hello", "  File \"x\", line 1 in f", "<html>"}) {
    CHECK_FALSE(parse_traceback(text));
  }
}

TEST_CASE("the position is the oldest pending operation") {
  const auto positions =
      parse_flight_record(record(entry(default_group, 3, "all_reduce", true) + "," +
                                 entry(default_group, 4, "all_reduce", false) + "," +
                                 entry(default_group, 5, "all_gather", false)))
          .value();
  CHECK(positions == std::vector<Position>{{.group = "default_pg",
                                            .sequence = 4,
                                            .operation = "all_reduce",
                                            .shape = "[4, 8] Float",
                                            .is_pending = true,
                                            .queued = 1}});
}

TEST_CASE("the position is the last operation if none is pending") {
  const auto positions = parse_flight_record(record(entry(default_group, 2, "barrier", true) + "," +
                                                    entry(default_group, 3, "all_reduce", true)))
                             .value();
  REQUIRE(positions.size() == 1);
  CHECK(positions[0].sequence == 3);
  CHECK_FALSE(positions[0].is_pending);
}

TEST_CASE("groups are named by description and number") {
  const auto positions =
      parse_flight_record(record(entry(default_group, 3, "all_reduce", true) + "," +
                                 entry(R"(["2","undefined"])", 6, "all_reduce", false) + "," +
                                 entry(R"(["3","mesh_tp"])", 1, "all_reduce", true)))
          .value();
  REQUIRE(positions.size() == 3);
  CHECK(positions[0].group == "default_pg");
  CHECK(positions[1].group == "group 2");
  CHECK(positions[2].group == "mesh_tp (group 3)");
}

TEST_CASE("members and pending point-to-point operations of NCCL are read") {
  const auto positions =
      parse_flight_record(
          R"({"entries":[{"collective_seq_id":0,"is_p2p":true,"p2p_seq_id":7,"pg_id":1,
              "process_group":["5","pp"],"profiling_name":"nccl:recv 1<-0","retired":false,
              "state":"started","input_sizes":[[2]],"input_dtypes":["Half"]}],
              "pg_config":{"5":{"desc":"pp","name":"5","ranks":"[4, 6]"}}})")
          .value();
  REQUIRE(positions.size() == 1);
  CHECK(positions[0].operation == "recv 1<-0");
  CHECK(positions[0].sequence == 7);
  CHECK(positions[0].is_pending);
  CHECK(positions[0].members.to_text() == "4,6");
}

TEST_CASE("the default group is known by its status when its operations have left the ring") {
  const auto positions = parse_flight_record(record("")).value();
  REQUIRE(positions.size() == 1);
  CHECK(positions[0].group == "default_pg");
  CHECK(positions[0].sequence == 4);
}

TEST_CASE("flight records that are garbage are errors or empty") {
  CHECK_FALSE(parse_flight_record(""));
  CHECK_FALSE(parse_flight_record("[]"));
  CHECK_FALSE(parse_flight_record(R"({"entries":7})"));
  CHECK(parse_flight_record("{}").value().empty());
  CHECK(parse_flight_record(R"({"entries":[1,"x",{},{"process_group":[]}]})").value().empty());
}

TEST_CASE("py-spy's threads are read") {
  const auto stacks = parse_py_spy(
                          R"([{"pid":812,"thread_id":1,"thread_name":"Thread-1","os_thread_id":813,
                               "active":false,"owns_gil":false,"frames":[]},
                              {"pid":812,"thread_id":2,"thread_name":"MainThread",
                               "os_thread_id":812,"frames":[{"name":"fetch",
                               "filename":"/a/data.py","short_filename":"data.py","line":12}]}])")
                          .value();
  REQUIRE(stacks.size() == 2);
  CHECK_FALSE(stacks[0].is_main);
  CHECK(stacks[1].is_main);
  CHECK(stacks[1].frames == std::vector<Frame>{{"fetch", "/a/data.py", 12}});
  CHECK_FALSE(parse_py_spy("{}"));
  CHECK_FALSE(parse_py_spy("[]"));
}

TEST_CASE("a worker in a collective waits for other ranks") {
  Observation seen = observation();
  seen.traceback = answered(in_all_reduce);
  seen.flight_record = answered(record(entry(default_group, 4, "all_reduce", false)));
  const WorkerEvidence worker = evidence_of(seen);
  CHECK(worker.activity == Activity::collective);
  CHECK(worker.unread.empty());
  CHECK(worker.positions.at(0).is_pending);
}

TEST_CASE("gloo's recv has no record, and its frame tells") {
  Observation seen = observation();
  seen.traceback = answered(in_all_reduce);
  CHECK(evidence_of(seen).activity == Activity::collective);
}

TEST_CASE("a caller of Work.wait() has no frame of PyTorch") {
  Observation seen = observation();
  CHECK(evidence_of(seen).activity == Activity::lock);
  seen.flight_record = answered(record(entry(default_group, 4, "all_reduce", false)));
  CHECK(evidence_of(seen).activity == Activity::collective);
  seen.traceback = answered(
      "Thread 0x1 (most recent call first):\n"
      "  File \"/p/lib/python3.11/threading.py\", line 327 in wait\n");
  CHECK(evidence_of(seen).activity == Activity::lock);
}

TEST_CASE("the system call of the main thread tells what it waits for") {
  CHECK(with_call(SYS_futex).activity == Activity::lock);
  CHECK(with_call(SYS_read).activity == Activity::reading);
  CHECK(with_call(SYS_clock_nanosleep).activity == Activity::sleeping);
  CHECK(with_call(SYS_wait4).activity == Activity::child);
  CHECK(with_call(SYS_fsync).activity == Activity::blocked);
}

TEST_CASE("without the system call the kernel function tells") {
  Observation seen = observation();
  seen.process.threads[0].system_call.reset();
  CHECK(evidence_of(seen).activity == Activity::lock);
  seen.process.threads[0].wait_channel = "hrtimer_nanosleep";
  CHECK(evidence_of(seen).activity == Activity::sleeping);
  seen.process.threads[0].wait_channel = "folio_wait_bit";
  CHECK(evidence_of(seen).activity == Activity::blocked);
  CHECK(evidence_of(seen).detail == "in the kernel function folio_wait_bit");
}

TEST_CASE("a worker that uses its CPU is busy") {
  Observation seen = observation();
  seen.process.threads[0].cpu_meanwhile = std::chrono::milliseconds(60);
  CHECK(evidence_of(seen).activity == Activity::busy);
  seen.process.threads[0].cpu_meanwhile = std::chrono::milliseconds(40);
  CHECK(evidence_of(seen).activity == Activity::lock);
  seen.process.threads[0].state = 'R';
  CHECK(evidence_of(seen).activity == Activity::busy);
}

TEST_CASE("a worker that is stopped, or in uninterruptible sleep, is so whatever it answers") {
  Observation seen = observation();
  seen.traceback = {.kind = Answer::Kind::silent};
  seen.process.threads[0].state = 'T';
  CHECK(evidence_of(seen).activity == Activity::stopped);
  CHECK(evidence_of(seen).detail == "by a signal");
  seen.process.threads[0].state = 't';
  CHECK(evidence_of(seen).detail == "by a debugger");
  seen.process.threads[0].state = 'D';
  seen.process.threads[0].wait_channel = "nfs_wait_on_request";
  CHECK(evidence_of(seen).activity == Activity::disk);
  CHECK(evidence_of(seen).detail == "in the kernel function nfs_wait_on_request");
}

TEST_CASE("a worker in vfork waits for its child") {
  Observation seen = observation();
  seen.traceback = {.kind = Answer::Kind::silent};
  seen.process.threads[0].state = 'D';
  seen.process.threads[0].wait_channel = "kernel_clone";
  seen.children = {{.pid = 812, .parent = seen.pid, .name = "python3", .state = 'S'}};
  CHECK(evidence_of(seen).activity == Activity::child);
  CHECK(evidence_of(seen).detail == "812 (python3, blocked)");
}

TEST_CASE("a worker that answers a ping but no traceback holds the GIL") {
  Observation seen = observation();
  seen.traceback = {.kind = Answer::Kind::silent};
  const WorkerEvidence worker = evidence_of(seen);
  CHECK(worker.activity == Activity::gil);
  CHECK(worker.unread == "stack: no response");
  CHECK(worker.positions.size() == 1);
  seen.py_spy = answered(
      R"([{"thread_name":"MainThread","frames":[{"name":"f","filename":"/a/x.py","line":3}]}])");
  CHECK(place_of(evidence_of(seen).stack) == "f x.py:3");
  CHECK(evidence_of(seen).unread.empty());
}

TEST_CASE("the stack in the memory of a worker is shown where its server has not answered") {
  Observation seen = observation();
  seen.memory = answered(in_user_code);
  CHECK(full_text(seen).find("traceback from its memory") != std::string::npos);
  seen.traceback = {.kind = Answer::Kind::silent, .reason = "the process is stopped"};
  seen.process.threads[0].state = 'T';
  const WorkerEvidence stopped = evidence_of(seen);
  CHECK(stopped.activity == Activity::stopped);
  CHECK(place_of(stopped.stack) == "fetch data.py:9");
  CHECK(stopped.unread.empty());
  // faulthandler stops after a hundred threads.
  seen = observation();
  seen.traceback = answered("Thread 0x1 (most recent call first):\n  <no Python frame>\n...\n");
  seen.memory = answered(in_user_code);
  CHECK(place_of(evidence_of(seen).stack) == "fetch data.py:9");
}

TEST_CASE("a thread that waits and has the GIL holds it in C, by the memory of its process") {
  Observation seen = observation();
  seen.ping = seen.traceback = {};
  seen.memory = answered(in_user_code);
  seen.process.threads[0].system_call = SYS_nanosleep;
  CHECK(evidence_of(seen).activity == Activity::sleeping);
  seen.main_holds_gil = true;
  CHECK(evidence_of(seen).activity == Activity::gil);
  seen.process.threads[0].state = 'R';
  CHECK(evidence_of(seen).activity == Activity::busy);
}

TEST_CASE("memory that may not be read is a reason, beside the missing server") {
  Observation seen = observation();
  seen.ping = seen.traceback = seen.flight_record = {};
  CHECK(evidence_of(seen).unread == "stack: this worker has no debug server");
  seen.memory = {.kind = Answer::Kind::failed, .reason = "no permission to read its memory"};
  CHECK(evidence_of(seen).unread ==
        "stack: no permission to read its memory; stack: this worker has no debug server");
}

TEST_CASE("a worker that waits for its data loader names the child") {
  Observation seen = observation();
  seen.traceback = answered(in_data_loader);
  seen.process.threads[0].system_call = SYS_read;
  CHECK(evidence_of(seen).activity == Activity::reading);
  seen.children = {{.pid = 820,
                    .parent = 812,
                    .name = "python3",
                    .state = 'S',
                    .threads = {{.tid = 820, .state = 'S', .system_call = SYS_read}}},
                   {.pid = 821,
                    .parent = 812,
                    .name = "pt_data_worker",
                    .state = 'S',
                    .threads = {{.tid = 821, .state = 'S', .system_call = SYS_nanosleep}}},
                   {.pid = 822, .parent = 812, .name = "sh", .state = 'Z'}};
  const WorkerEvidence worker = evidence_of(seen);
  CHECK(worker.activity == Activity::child);
  CHECK(worker.detail == "821 (pt_data_worker, sleeping)");
}

TEST_CASE("a worker that has ended has exited, and needs no reason") {
  Observation seen = observation();
  seen.has_exited = true;
  seen.traceback = {.kind = Answer::Kind::failed, .reason = "connection refused"};
  const WorkerEvidence worker = evidence_of(seen);
  CHECK(worker.activity == Activity::exited);
  CHECK(worker.unread.empty());
}

namespace {

const std::vector<std::string> timed_out = {
    "[rank0]: Traceback (most recent call last):",
    "[rank0]:   File \"/a/other.py\", line 3, in earlier",
    "[rank0]: KeyError: 'x'",
    "[rank0]: During handling of the above exception, another exception occurred:",
    "[rank0]: Traceback (most recent call last):",
    "[rank0]:   File \"/a/train.py\", line 12, in <module>",
    "[rank0]:     step()",
    "[rank0]:   File \"/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", "
    "line 3252, in all_reduce",
    "[rank0]:     work.wait()",
    "[rank0]: RuntimeError: [unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to "
    "complete"};

}  // namespace

TEST_CASE("the last traceback that was printed is read") {
  const auto frames = parse_printed_traceback(timed_out);
  REQUIRE(frames.size() == 2);
  CHECK(frames[0].function == "all_reduce");
  CHECK(frames[1] == Frame{"<module>", "/a/train.py", 12});
  CHECK(parse_printed_traceback({"terminate called", "  File garbage"}).empty());
}

TEST_CASE("a worker that gave up waiting has waited for other ranks, as its output says") {
  Observation seen = observation();
  seen.last_lines = timed_out;
  for (const bool has_exited : {false, true}) {
    seen.has_exited = has_exited;
    const WorkerEvidence worker = evidence_of(seen);
    CHECK(worker.activity == Activity::collective);
    CHECK(worker.unread.empty());
    REQUIRE(worker.stack.size() == 2);
    CHECK(full_text(seen).find("rank 2: waits in all_reduce (<module>, train.py:12)") !=
          std::string::npos);
    CHECK(full_text(seen).find("Timed out waiting 4000ms") != std::string::npos);
  }
  seen.has_exited = false;
  seen.process.threads[0].state = 'T';
  CHECK(evidence_of(seen).activity == Activity::stopped);
}

TEST_CASE(
    "a worker that gave up waiting did so in its last operation, if it is that of its stack") {
  Observation seen = observation();
  seen.last_lines = timed_out;
  REQUIRE(evidence_of(seen).positions.size() == 1);
  CHECK(evidence_of(seen).positions[0].is_pending);
  seen.flight_record = answered(record(entry(default_group, 3, "barrier", true)));
  CHECK_FALSE(evidence_of(seen).positions[0].is_pending);
}

TEST_CASE("frames of C and C++ are added if they were requested") {
  Observation seen = observation();
  seen.native = "futex_wait libc.so.6\nmain train.cpp:4\n";
  CHECK(evidence_of(seen).native_stack.empty());
  seen.shows_native = true;
  const WorkerEvidence worker = evidence_of(seen);
  CHECK(worker.stack.front().function == "fetch");
  CHECK(worker.native_stack ==
        std::vector<Frame>{{"futex_wait libc.so.6", "", 0}, {"main", "train.cpp", 4}});
  seen.native = "";
  seen.native_reason = "ptrace: Operation not permitted";
  CHECK(evidence_of(seen).unread == "native stack: ptrace: Operation not permitted");
}

TEST_CASE("what could not be read has its reason") {
  Observation seen = observation();
  seen.traceback = {.kind = Answer::Kind::failed, .reason = "connection refused"};
  seen.flight_record = answered("<html>");
  const WorkerEvidence worker = evidence_of(seen);
  CHECK(worker.unread ==
        "stack: connection refused; flight record: the answer is not a JSON object");
  seen.native = "futex_wait futex.c:57\nQueue::pop(int) queue.cpp:12\nmain\n";
  CHECK(evidence_of(seen).is_native);
  CHECK(place_of(evidence_of(seen).stack) == "Queue::pop(int) queue.cpp:12");
  CHECK(evidence_of(Observation{}).unread == "stack: this worker has no debug server");
  seen = observation();
  seen.traceback = {.kind = Answer::Kind::silent, .reason = "an incomplete response"};
  seen.py_spy = {.kind = Answer::Kind::failed, .reason = "py-spy: no permission"};
  CHECK(evidence_of(seen).unread == "stack: an incomplete response; stack: py-spy: no permission");
  seen.py_spy = answered("[]");
  CHECK(evidence_of(seen).unread ==
        "stack: an incomplete response; stack: the output of py-spy has no threads");
}

TEST_CASE("the file with all stacks has everything that was read") {
  Observation seen = observation();
  seen.children = {{.pid = 820, .parent = 812, .name = "sh\x1b[1m", .state = 'S'}};
  seen.native_reason = "ptrace: Operation not permitted";
  const std::string text = full_text(seen);
  for (const char* part :
       {"rank 2: waits for a lock in fetch (data.py:9)", "process 812 (python3), state S, 1 thread",
        "child 820", "default_pg: all_reduce number 3, [4, 8] Float, completed", "line 14 in run",
        "in the kernel function futex_do_wait",
        "native stack of the main thread: ptrace: Operation not permitted"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("observations survive the pipe, with any bytes") {
  Observation seen = observation();
  seen.traceback.body = std::string("\xff\x00\n", 3);
  seen.children = {seen.process};
  seen.process.threads[0].system_call.reset();
  const std::vector<Observation> both = {seen, Observation{}};
  CHECK(observations_of(to_text(both)).value() == both);
}

TEST_CASE("one worker's evidence that is too large or invalid costs no other worker's") {
  Observation large = observation();
  large.memory = {.kind = Answer::Kind::answered, .body = std::string(answer_bytes_max + 1, 'x')};
  large.process.threads[0].cpu = std::chrono::hours(24 * 365);
  const auto cut = observations_of(to_text({large, observation()}));
  REQUIRE(cut.has_value());
  CHECK(cut->at(0).memory.body.size() == answer_bytes_max);
  CHECK(cut->at(1) == observation());

  Observation invalid = observation();
  invalid.process.state = '\n';
  const auto read = observations_of(to_text({invalid, observation()}));
  REQUIRE(read.has_value());
  CHECK(read->at(1) == observation());
  CHECK(read->at(0).rank == invalid.rank);
  CHECK(read->at(0).process == ProcessObservation{});
  CHECK(evidence_of(read->at(0)).unread == "stack: cannot read the evidence: invalid state");
}

TEST_CASE("garbage in the pipe is an error") {
  const std::string whole = to_text({observation()});
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    CHECK_FALSE(observations_of(whole.substr(0, length)));
  }
  CHECK_FALSE(observations_of("hello"));
  CHECK_FALSE(observations_of(whole + "x"));
}

}  // namespace hang_observation_test
