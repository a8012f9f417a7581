// SPDX-License-Identifier: BSD-3-Clause
// Claims to the node rank of a node that may be dead.

#include <doctest/doctest.h>

#include "tests/rendezvous/job/job_table.h"

namespace job_claims_test {

using namespace cpprun;
using namespace cpprun::testing;

TEST_CASE("a replacement waits for the lease of the dead agent, and then gets its seat") {
  Table table{1};
  table.seal();
  table.close(t0 + 1s, b);  // Its process ended, and the kernel closed its link.
  auto restarted = node(1);
  restarted.pid = 999;
  const auto waits = back(table, t0 + 1500ms, restarted);
  CHECK(said<link::Refused>(waits, newer).empty());
  REQUIRE(!said<link::Waiting>(waits, newer).empty());
  CHECK(said<link::Waiting>(waits, newer).back().reason ==
        "node rank 1 is taken by host1 (pid 101), which lost contact; it becomes free unless that "
        "node reconnects within 3 s");
  const auto lost = table.awake(t0 + 3s);
  CHECK(said<link::Drain>(lost, a)[0].reason == "node 1 on host1 is lost");
  const auto next = table.drained(t0 + 3s, 1, {a});
  REQUIRE(said<link::Sealed>(next, newer).size() == 1);
  CHECK(said<link::Sealed>(next, newer)[0].group_rank == GroupRank{1});
}

TEST_CASE("a replacement is rejected when the node resumes, and so is a third node") {
  Table table{1};
  table.seal();
  table.close(t0 + 1s, b, true);
  auto restarted = node(1);
  restarted.pid = 999;
  back(table, t0 + 1500ms, restarted);
  auto third = node(1);
  third.pid = 1000;
  CHECK(said<link::Refused>(back(table, t0 + 1600ms, third, LinkId{10}), LinkId{10}).size() == 1);
  const auto returned = back(table, t0 + 2s, after(node(1), 1), LinkId{11});
  CHECK(said<link::Heartbeat>(returned, LinkId{11}).size() == 1);
  REQUIRE(said<link::Refused>(returned, newer).size() == 1);
  CHECK(
      said<link::Refused>(returned, newer)[0].reason.starts_with("node rank 1 is taken by host1"));
  CHECK(table.job.round().size() == 2);
  CHECK(table.job.round().phase() == Round::Phase::sealed);
}

TEST_CASE("a replacement gets the seat of a node that died silently") {
  Table table{1};
  table.seal();
  table.hear(t0 + 1s, b, link::Heartbeat{});
  auto instead = node(1);
  instead.pid = 999;
  const auto waits = back(table, t0 + 1100ms, instead);
  CHECK(said<link::Refused>(waits, newer).empty());
  REQUIRE(!said<link::Waiting>(waits, newer).empty());
  CHECK(said<link::Waiting>(waits, newer).back().reason ==
        "node rank 1 is taken by host1 (pid 101); it becomes free unless that node responds within "
        "3 s");
  const auto lost = table.awake(t0 + 4s);
  CHECK(said<link::Drain>(lost, a)[0].reason == "node 1 on host1 is lost");
  const auto next = table.drained(t0 + 4s, 1, {a});
  REQUIRE(said<link::Sealed>(next, newer).size() == 1);
  CHECK(said<link::Sealed>(next, newer)[0].group_rank == GroupRank{1});
}

TEST_CASE("a claim is rejected by the next message of the seat's holder") {
  Table table;
  table.seal();
  auto second = node(1);
  second.pid = 999;
  back(table, t0 + 1s, second);
  CHECK(table.job.round().size() == 3);
  const auto heard = table.hear(t0 + 1500ms, b, link::Heartbeat{});
  REQUIRE(said<link::Refused>(heard, newer).size() == 1);
  CHECK(said<link::Refused>(heard, newer)[0].reason ==
        "node rank 1 is taken by host1 (pid 101), but host1 (pid 999) has the same; give each node "
        "its own --node-rank, from 0 to 1");
  CHECK(table.job.round().size() == 2);
  CHECK(table.job.round().phase() == Round::Phase::sealed);
}

TEST_CASE("a round never starts with two nodes of one rank, whichever of them remains") {
  for (const bool is_there : {true, false}) {
    CAPTURE(is_there);
    Table table;
    table.join(t0, b, node(1));
    auto second = node(1);
    second.pid = 999;
    back(table, t0 + 1s, second);
    // Two nodes are present; the round needs one more.
    CHECK(said<link::Sealed>(table.join(t0 + 2s, a, node(0), true), a).empty());
    const auto actions =
        is_there ? table.hear(t0 + 2500ms, b, link::Heartbeat{}) : table.awake(t0 + 3s);
    REQUIRE(said<link::Sealed>(actions, a).size() == 1);
    CHECK(said<link::Sealed>(actions, b).size() == (is_there ? 1 : 0));
    CHECK(said<link::Sealed>(actions, newer).size() == (is_there ? 0 : 1));
    CHECK(said<link::Refused>(actions, newer).size() == (is_there ? 1 : 0));
  }
}

TEST_CASE("a node that leaves passes its seat to the node that claimed it") {
  Table table;
  table.join(t0, b, node(1));
  auto second = node(1);
  second.pid = 999;
  back(table, t0 + 1s, second);
  table.hear(t0 + 1s, b, link::Leave{.reason = "asked to stop"});
  const auto sealed = table.join(t0 + 2s, a, node(0), true);
  CHECK(said<link::Sealed>(sealed, newer).size() == 1);
}

}  // namespace job_claims_test
