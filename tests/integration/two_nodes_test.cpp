// SPDX-License-Identifier: BSD-3-Clause
// Two nodes on this machine, as two people would type them in two terminals.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/sockets.h"

namespace two_nodes_test {

using namespace cpprun::integration;

namespace {

// Both sides of a job need to know the port, so the kernel cannot choose it.
struct Job {
  int port = free_port();
  std::string nodes = "2";

  Words node(int rank, int workers, const Words& options, const Words& actions) const {
    Words words = {"--nnodes=" + nodes, "--nproc_per_node=" + std::to_string(workers),
                   "--node_rank=" + std::to_string(rank), "--master_addr=127.0.0.1",
                   "--master_port=" + std::to_string(port)};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(worker());
    words.insert(words.end(), actions.begin(), actions.end());
    return with_cpprun(words);
  }
};

}  // namespace

TEST_CASE(
    "two nodes with different numbers of workers share one sequence of ranks in either start "
    "order") {
  const Job job;
  const Words show = {"environment"};
  Command second(job.node(1, 3, {}, show));
  second.expect_err("no response from the master");  // it reports what it waits for
  Command first(job.node(0, 2, {}, show));
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK(of_first.code == 0);
  CHECK(of_second.code == 0);
  for (const auto* rank : {"\nRANK=0\n", "\nRANK=1\n"}) CHECK(contains(of_first.out, rank));
  for (const auto* rank : {"\nRANK=2\n", "\nRANK=3\n", "\nRANK=4\n"}) {
    CHECK(contains(of_second.out, rank));
  }
  CHECK(count(of_first.out, "\nWORLD_SIZE=5\n") == 2);
  CHECK(count(of_second.out, "\nWORLD_SIZE=5\n") == 3);
  CHECK(count(of_second.out, "\nLOCAL_WORLD_SIZE=3\n") == 3);
  CHECK(count(of_second.out, "\nGROUP_RANK=1\n") == 3);
  CHECK(count(of_second.out, "\nMASTER_PORT=" + std::to_string(job.port) + "\n") == 3);
}

TEST_CASE("a failure on node 1 ends node 0 with the same code, and both name the node") {
  const Job job;
  Command first(job.node(0, 2, {}, {"hang"}));
  Command second(job.node(1, 2, {}, {"hang_if_not", "3", "exit", "13"}));
  const auto of_second = second.wait();
  const auto of_first = first.wait();
  CHECK(of_first.code == 13);
  CHECK(of_second.code == 13);
  CHECK(contains(of_first.err, "exited with code 13"));
  CHECK(contains(of_second.err, "exited with code 13"));
  first.expect_no_worker_left();
  second.expect_no_worker_left();
}

TEST_CASE("a failure on node 0 ends node 1 with the same code") {
  const Job job;
  Command second(job.node(1, 2, {}, {"hang"}));
  Command first(job.node(0, 2, {}, {"hang_if_not", "0", "crash"}));
  CHECK(first.wait().code == 139);
  CHECK(second.wait().code == 139);
  second.expect_no_worker_left();
}

TEST_CASE("when PyTorch times out on one node, both name the rank of the other that never came") {
  const Job job;
  const std::string script =
      "[ $RANK = 1 ] && { echo here; exec sleep 600; };"
      " echo 'RuntimeError: Timed out waiting 9ms for recv operation to complete' >&2; exit 7";
  const auto node = [&](int rank) {
    return with_cpprun({"--nnodes=2", "--node_rank=" + std::to_string(rank),
                        "--master_addr=127.0.0.1", "--master_port=" + std::to_string(job.port),
                        "--no-python", "sh", "-c", script});
  };
  Command second(node(1));
  Command first(node(0));
  const auto of_second = second.wait();
  const auto of_first = first.wait();
  CHECK(of_first.code == 7);
  CHECK(of_second.code == 7);
  for (const auto& ended : {of_first, of_second}) {
    CAPTURE(ended.err);
    CHECK(count(ended.err, "error: a process group of PyTorch timed out") == 1);
    CHECK(contains(ended.err, "rank 0 waits in a collective"));
    CHECK(contains(ended.err, " for rank 1, which "));
  }
  CHECK(contains(of_first.err, "see the verdict above"));
  second.expect_no_worker_left();
}

TEST_CASE("Ctrl-C on one node ends the other too") {
  const Job job;
  Command first(job.node(0, 1, {}, {"say", "here", "hang"}));
  Command second(job.node(1, 1, {}, {"say", "here", "hang"}));
  first.expect_out("here\n");
  second.expect_out("here\n");
  second.signal(SIGINT);
  CHECK(second.wait().code == 130);
  CHECK(first.wait().code != 0);
  first.expect_no_worker_left();
  second.expect_no_worker_left();
}

TEST_CASE("kill -9 of the master ends the other node's workers within its lease") {
  const Job job;
  Command first(job.node(0, 1, {}, {"say", "here", "hang"}));
  Command second(job.node(1, 1, {}, {"say", "here", "hang"}));
  first.expect_out("here\n");
  second.expect_out("here\n");
  first.signal(SIGKILL);
  CHECK(second.wait().code != 0);
  first.expect_no_process_left();
  second.expect_no_worker_left();
}

TEST_CASE("kill -9 of the master leaves the other node's workers time to save") {
  const Job job;
  const auto node = [&](int rank) {
    return with_cpprun({"--nnodes=2", "--node_rank=" + std::to_string(rank),
                        "--master_addr=127.0.0.1", "--master_port=" + std::to_string(job.port),
                        "--no-python", "sh", "-c",
                        "trap 'echo saved; exit 0' TERM; echo here; "
                        "while :; do sleep 600 & wait; done"});
  };
  Command first(node(0));
  Command second(node(1));
  first.expect_out("here\n");
  second.expect_out("here\n");
  first.signal(SIGKILL);
  const auto ended = second.wait();
  CHECK(ended.code == 1);
  CHECK_MESSAGE(contains(ended.out, "saved\n"), ended.err);
  first.expect_no_process_left();
  second.expect_no_worker_left();
}

TEST_CASE("a failure on any node restarts both, and the count is the same on both") {
  const Job job;
  const std::string fail_once =
      "echo attempt $TORCHELASTIC_RESTART_COUNT; "
      "test $TORCHELASTIC_RESTART_COUNT = 1 || test $RANK = 0 || exit 5; "
      "test $TORCHELASTIC_RESTART_COUNT = 1 || exec sleep 600";
  const auto node = [&](int rank) {
    return with_cpprun({"--nnodes=2", "--node_rank=" + std::to_string(rank), "--max-restarts=1",
                        "--master_addr=127.0.0.1", "--master_port=" + std::to_string(job.port),
                        "--no-python", "sh", "-c", fail_once});
  };
  Command first(node(0));
  Command second(node(1));
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK(of_first.code == 0);
  CHECK(of_second.code == 0);
  CHECK(contains(of_first.out, "attempt 1\n"));
  CHECK(contains(of_second.out, "attempt 1\n"));
}

TEST_CASE("a killed worker is the cause, though its peer on another node exited sooner") {
  const Job job;
  const Directory shared;
  // Rank 0 notices the death of rank 1 before its node does: the death is held back until the round
  // is broken.
  const std::string ready = shared.path() + "/ready";
  REQUIRE(::mkfifo(ready.c_str(), 0600) == 0);
  // In arguments $$ stands for one $, as torchrun has it.
  const std::string die_late =
      "if test $RANK = 0; then read line < $0; "
      "echo 'RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer' >&2; "
      "exit 1; fi; "
      "trap 'kill -9 $$$$' TERM; echo > $0; while :; do sleep 600 & wait; done";
  const auto node = [&](int rank) {
    return with_cpprun({"--nnodes=2", "--node_rank=" + std::to_string(rank),
                        "--master_addr=127.0.0.1", "--master_port=" + std::to_string(job.port),
                        "--no-python", "sh", "-c", die_late, ready});
  };
  Command first(node(0));
  Command second(node(1));
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK_MESSAGE(of_first.code == 128 + SIGKILL, of_first.err);
  CHECK(of_second.code == 128 + SIGKILL);
  CHECK_MESSAGE(contains(of_first.err, "was killed by SIGKILL"), of_first.err);
  CHECK(contains(of_first.err, "rank 0"));  // as a consequence
  second.expect_no_worker_left();
}

TEST_CASE("a node rank that is in use is rejected with a sentence that names both nodes") {
  Job job;
  job.nodes = "3";
  Command master(job.node(0, 1, {}, {"hang"}));
  Command second(job.node(1, 1, {}, {"hang"}));
  // It has a seat when the master lists the missing nodes.
  master.expect_err("node rank 2");
  const auto third = run(job.node(1, 1, {}, {"hang"}));
  CHECK(third.code != 0);
  CHECK(contains(third.err, "node rank 1"));
  CHECK(contains(third.err, "taken"));
}

TEST_CASE("a node with another number of nodes is rejected with both numbers") {
  Job job;
  Command master(job.node(0, 1, {}, {"hang"}));
  master.expect_err("node rank 1");
  job.nodes = "3";
  const auto other = run(job.node(1, 1, {}, {"hang"}));
  CHECK(other.code != 0);
  CHECK(contains(other.err, "--nnodes=2"));
  CHECK(contains(other.err, "--nnodes=3"));
}

TEST_CASE("a node of another job is rejected with both jobs") {
  const Job job;
  Command master(job.node(0, 1, {"--rdzv-id=alpha"}, {"hang"}));
  master.expect_err("node rank 1");
  const auto other = run(job.node(1, 1, {"--rdzv-id=beta"}, {"hang"}));
  CHECK(other.code != 0);
  CHECK(contains(other.err, "alpha"));
  CHECK(contains(other.err, "beta"));
}

TEST_CASE("a node without a master to connect to reports it, and exits after join_timeout") {
  const Job job;
  const auto ended = run(job.node(1, 1, {"--rdzv-conf=join_timeout=2"}, {"say", "started"}));
  CHECK(ended.code != 0);
  CHECK(ended.out == "");
  CHECK(contains(ended.err, "127.0.0.1:" + std::to_string(job.port)));
  CHECK(contains(ended.err, "refused"));
}

TEST_CASE("a master whose name does not resolve is reported as such") {
  const auto ended = run(with_cpprun({"--nnodes=2", "--node_rank=1",
                                      "--master_addr=no-such-host.invalid", "--master_port=29500",
                                      "--rdzv-conf=join_timeout=2", worker(), "say", "started"}));
  CHECK(ended.code != 0);
  CHECK(ended.out == "");
  CHECK(contains(ended.err, "no-such-host.invalid"));
}

TEST_CASE("something that is not a cpprun at the master's port is reported as such") {
  const Listener unidentified(0);
  Command node(with_cpprun({"--nnodes=2", "--node_rank=1", "--master_addr=127.0.0.1",
                            "--master_port=" + std::to_string(unidentified.port()),
                            "--rdzv-conf=join_timeout=30", worker(), "say", "started"}));
  constexpr int milliseconds_max = 30'000;
  const auto peer = unidentified.answer("HTTP/1.0 400 Bad Request\r\n\r\n", milliseconds_max);
  REQUIRE(peer);
  node.expect_err("not a cpprun");
  node.signal(SIGTERM);
  CHECK(node.wait().code == 143);
}

TEST_CASE("garbage on the master's port during a job is reported as such and affects no node") {
  using namespace std::string_literals;
  const Job job;
  const Directory directory;
  const Words gates = {directory.path() + "/gate0", directory.path() + "/gate1"};
  for (const auto& gate : gates) REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  Command first(job.node(0, 1, {}, {"say", "here", "await", gates[0]}));
  Command second(job.node(1, 1, {}, {"say", "here", "await", gates[1]}));
  first.expect_out("here\n");
  second.expect_out("here\n");
  std::vector<cpprun::FileDescriptor> unidentified_connections;
  for (const auto& words :
       {"\xff\xfe garbage"s, "SSH-2.0-scanner\r\n"s, "cpprun1\n\xff\xff\xff\x7f"s,
        "cpprun1\n\x05\0\0\0{\"sa\""s, "cpprun1\n"s, ""s, "\0\xce\xf7\x85\x3c\x63"s,
        // A SET whose key would be four exabytes long, and one of which half arrives.
        "\0\xce\xf7\x85\x3c\x01\0\0\0\0\0\0\0\x40"s, "\0\xce\xf7\x85\x3c\x01\x08\0\0"s}) {
    unidentified_connections.push_back(speak(job.port, words));
    REQUIRE(unidentified_connections.back());
  }
  for (int scan = 0; scan < 200; ++scan) REQUIRE(speak(job.port, ""));
  first.expect_err("an SSH client");
  // Opening it waits for the worker that waits behind it.
  for (const auto& gate : gates) cpprun::FileDescriptor(::open(gate.c_str(), O_WRONLY | O_CLOEXEC));
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
}

TEST_CASE("a master port that is in use is an error that names it, and nothing starts") {
  const Listener unidentified(0);
  const auto ended = run(with_cpprun({"--nnodes=2", "--node_rank=0", "--master_addr=127.0.0.1",
                                      "--master_port=" + std::to_string(unidentified.port()),
                                      worker(), "say", "started"}));
  CHECK(ended.code != 0);
  CHECK(ended.out == "");
  CHECK(contains(ended.err, std::to_string(unidentified.port())));
}

TEST_CASE("independent workers of two nodes share one restart budget, and run on") {
  const Job job;
  const Directory directory;
  const std::string gate = directory.path() + "/gate";
  REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  // Rank 0 waits for the second attempt of rank 1, and fails then: no restart is left for it.
  const std::string script =
      "echo rank $RANK\n"
      "[ $RANK = 0 ] && { read -r line <" +
      gate + "; exit 5; }\n[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 7\necho >" + gate +
      "\nexec sleep 600";
  const auto node = [&](int rank) {
    return with_cpprun({"--nnodes=2", "--node_rank=" + std::to_string(rank),
                        "--master_addr=127.0.0.1", "--master_port=" + std::to_string(job.port),
                        "--max-restarts=1", "--restart-scope=worker",
                        "--report=" + directory.path() + "/report" + std::to_string(rank),
                        "--no-python", "sh", "-c", script});
  };
  Command second(node(1));
  Command first(node(0));
  const auto of_second = second.wait();
  const auto of_first = first.wait();
  CAPTURE(of_first.err);
  CHECK(of_first.code == 5);
  CHECK(of_second.code == 5);
  CHECK(of_first.out == "rank 0\n");
  CHECK(of_second.out == "rank 1\nrank 1\n");
  CHECK(contains(of_second.err, "restarting rank 1 alone: restart 1 of 1"));
  CHECK(contains(of_first.err, "rank 1 on "));
  CHECK(contains(of_first.err, "failed and is restarted alone: restart 1 of 1"));
  CHECK(contains(of_first.err, "all 1 restarts are used"));
  CHECK(contains(Directory::read(directory.path() + "/report0"), R"("restarts": 1)"));
  first.expect_no_worker_left();
  second.expect_no_worker_left();
}

TEST_CASE("a node with another restart scope is rejected") {
  const Job job;
  Command first(job.node(0, 1, {"--max-restarts=1", "--restart-scope=worker"}, {"hang"}));
  Command second(job.node(1, 1, {"--max-restarts=1"}, {"hang"}));
  CHECK(second.wait().code == 1);
  CHECK(contains(second.err(), "this job uses --max-restarts=1 --restart-scope=worker"));
}

}  // namespace two_nodes_test
