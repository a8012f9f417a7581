// SPDX-License-Identifier: BSD-3-Clause
// Jobs on two hosts that were set up wrong, as people who follow a tutorial do it. Each ends with a
// message that names the error, on both hosts, within seconds.

#include <doctest/doctest.h>
#include <signal.h>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/hosts.h"

namespace wrong_setup_test {

using namespace cpprun::integration;

namespace {

// A timeout of a few seconds is enough for a node that never meets the others.
Words words_of(const Words& flags, const std::string& join_timeout) {
  Words words = {"--nproc-per-node=1",
                 "--rdzv-conf=join_timeout=" + join_timeout + ",last_call_timeout=0.2"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {worker(), "seat"});
  return with_cpprun(words);
}

Words static_node(int rank, const std::string& master, const std::string& join_timeout = "6") {
  return words_of({"--nnodes=2", "--node-rank=" + std::to_string(rank), "--master-addr=" + master,
                   "--master-port=29500"},
                  join_timeout);
}

Words meeting_node(const std::string& nodes, const std::string& endpoint,
                   const std::string& join_timeout = "6") {
  return words_of(
      {"--nnodes=" + nodes, "--rdzv-backend=c10d", "--rdzv-endpoint=" + endpoint, "--rdzv-id=job"},
      join_timeout);
}

void expect_words(const Ended& ended, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts) {
    CHECK_MESSAGE(contains(ended.err, part), "\"", part, "\" is not in:\n", ended.err);
  }
}

// No worker was started, and no node reports success.
void expect_refused(const Ended& ended, std::initializer_list<std::string> parts) {
  CHECK(ended.code != 0);
  CHECK(ended.out == "");
  expect_words(ended, parts);
}

}  // namespace

TEST_CASE("an endpoint name that means both hosts is rejected on both, with a suggestion") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  for (const int host : {0, 1}) hosts.know(host, "10.77.0.1 trainer\n10.77.0.2 trainer\n");
  Command first(hosts.on(0, meeting_node("1:2", "trainer:29400")));
  Command second(hosts.on(1, meeting_node("1:2", "trainer:29400")));
  expect_refused(first.wait(), {"trainer", "10.77.0.1 is this machine", "10.77.0.2 is not",
                                "--rdzv-endpoint=10.77.0.1:29400"});
  expect_refused(second.wait(), {"trainer", "10.77.0.2 is this machine", "10.77.0.1 is not"});
}

TEST_CASE("a name that means both hosts is accepted if the host is given") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  for (const int host : {0, 1}) hosts.know(host, "10.77.0.1 trainer\n10.77.0.2 trainer\n");
  Command second(hosts.on(1, static_node(1, "trainer", "50")));
  Command first(hosts.on(0, static_node(0, "trainer", "50")));
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  CHECK_MESSAGE(of_second.code == 0, of_second.err);
  CHECK(contains(of_second.out, "rank 1 of 2"));
}

TEST_CASE("a master address of no host is reported by node 0 at once, with the addresses it has") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  Command first(hosts.on(0, static_node(0, "10.77.0.9")));
  Command second(hosts.on(1, static_node(1, "10.77.0.9")));
  first.expect_err("10.77.0.9 is not an address of this machine");
  expect_refused(first.wait(), {"10.77.0.1 (fabric0)", "--master-addr"});
  expect_refused(second.wait(), {"10.77.0.9:29500"});
}

TEST_CASE("a master address that is node 1's own is reported by both nodes") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  Command first(hosts.on(0, static_node(0, Hosts::address(1))));
  Command second(hosts.on(1, static_node(1, Hosts::address(1))));
  second.expect_err("10.77.0.2 is this machine");
  expect_refused(first.wait(),
                 {"10.77.0.2 is not an address of this machine", "10.77.0.1 (fabric0)"});
  expect_refused(second.wait(), {"--node-rank=1"});
}

TEST_CASE("two nodes with rank 0 find each other, and both report it") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  Command first(hosts.on(0, static_node(0, Hosts::address(0))));
  Command second(hosts.on(1, static_node(0, Hosts::address(0), "50")));
  const auto refused = second.wait();
  expect_refused(refused, {"node0", "node1", "--node-rank"});
  expect_refused(first.wait(), {"node1", "--node-rank"});
}

TEST_CASE("two nodes with rank 0 find each other when the right one comes later") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  Command second(hosts.on(1, static_node(0, Hosts::address(0), "50")));
  second.expect_err("10.77.0.1 is not an address of this machine");
  Command first(hosts.on(0, static_node(0, Hosts::address(0))));
  expect_refused(second.wait(), {"node0", "node1", "--node-rank"});
  expect_refused(first.wait(), {"node1", "--node-rank"});
}

TEST_CASE("127.0.0.1 as the master of two hosts is reported on both as each one's own address") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  Command first(hosts.on(0, static_node(0, "127.0.0.1")));
  Command second(hosts.on(1, static_node(1, "127.0.0.1")));
  expect_refused(first.wait(),
                 {"127.0.0.1 is only reachable from this machine", "--master-addr=10.77.0.1"});
  expect_refused(second.wait(), {"127.0.0.1 is this machine"});
}

TEST_CASE("a forgotten master address is reported, on whichever node it was forgotten") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  const auto forgetful = words_of({"--nnodes=2", "--node-rank=0"}, "6");
  Command first(hosts.on(0, forgetful));
  Command second(hosts.on(1, static_node(1, Hosts::address(0))));
  expect_refused(first.wait(),
                 {"127.0.0.1 is only reachable from this machine", "--master-addr=10.77.0.1"});
  expect_refused(second.wait(), {"10.77.0.1:29500", "--node-rank=0"});
}

TEST_CASE("localhost as the endpoint of two hosts is reported on both, before one trains alone") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  Command first(hosts.on(0, meeting_node("2", "localhost:29400")));
  Command second(hosts.on(1, meeting_node("2", "localhost:29400")));
  expect_refused(first.wait(), {"localhost is only reachable from this machine",
                                "--rdzv-endpoint=10.77.0.1:29400"});
  expect_refused(second.wait(), {"localhost is only reachable from this machine",
                                 "--rdzv-endpoint=10.77.0.2:29400"});
}

TEST_CASE(
    "a name that node 0 cannot resolve is reported as such, and node 1 reports what it sees") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  hosts.know(1, "10.77.0.1 trainer\n");
  hosts.know(0, "");
  Command first(hosts.on(0, static_node(0, "trainer")));
  Command second(hosts.on(1, static_node(1, "trainer")));
  first.expect_err("cannot resolve \"trainer\"");
  second.expect_err("1 of 2 nodes have joined; missing: node rank 0");
  expect_refused(first.wait(), {"10.77.0.1 (fabric0)"});
  expect_refused(second.wait(), {"cannot resolve its own name \"trainer\""});
}

TEST_CASE("a name that resolves on node 0 a little later is waited for") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  hosts.know(0, "");
  hosts.know(1, "10.77.0.1 trainer\n");
  Command first(hosts.on(0, static_node(0, "trainer", "50")));
  first.expect_err("cannot resolve \"trainer\"");
  Command second(hosts.on(1, static_node(1, "trainer", "50")));
  hosts.know(0, "10.77.0.1 trainer\n");
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  CHECK_MESSAGE(of_second.code == 0, of_second.err);
}

TEST_CASE("a master address that is forwarded to node 0 causes a warning, and works") {
  const Hosts hosts(3);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  // As a Service or a forwarded port: connections to host 2 reach host 0.
  if (run({"socat", "-V"}).code != 0) return skip("socat is not here");
  Command forwarder(hosts.on(
      2, {"socat", "TCP-LISTEN:29500,fork,reuseaddr", "TCP:" + Hosts::address(0) + ":29500"}));
  Command second(hosts.on(1, static_node(1, Hosts::address(2), "50")));
  Command first(hosts.on(0, static_node(0, Hosts::address(2), "50")));
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  CHECK_MESSAGE(of_second.code == 0, of_second.err);
  expect_words(of_first, {"10.77.0.3 is not an address of this machine"});
  CHECK(contains(of_first.out, "rank 0 of 2"));
  CHECK(contains(of_second.out, "rank 1 of 2"));
}

}  // namespace wrong_setup_test
