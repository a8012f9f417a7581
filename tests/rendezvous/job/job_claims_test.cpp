// SPDX-License-Identifier: BSD-3-Clause
// Who comes for the node rank of somebody who may be dead.

#include <doctest/doctest.h>

#include "tests/rendezvous/job/job_table.h"

namespace job_claims_test {

using namespace cpprun;
using namespace cpprun::testing;

TEST_CASE("who is started in a dead agent's place waits for its lease, and then has its seat") {
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

TEST_CASE("who came for the seat of a node that is back after all is refused, and so is a third") {
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

TEST_CASE("who is started in the place of a node that is dead without a word has its seat") {
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

TEST_CASE("who came for a seat is refused with the next word of whoever has it") {
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

TEST_CASE("no round begins with two of one rank, whoever of them is there in the end") {
  for (const bool is_there : {true, false}) {
    CAPTURE(is_there);
    Table table;
    table.join(t0, b, node(1));
    auto second = node(1);
    second.pid = 999;
    back(table, t0 + 1s, second);
    // Two are here, and they are one too few.
    CHECK(said<link::Sealed>(table.join(t0 + 2s, a, node(0), true), a).empty());
    const auto actions =
        is_there ? table.hear(t0 + 2500ms, b, link::Heartbeat{}) : table.awake(t0 + 3s);
    REQUIRE(said<link::Sealed>(actions, a).size() == 1);
    CHECK(said<link::Sealed>(actions, b).size() == (is_there ? 1 : 0));
    CHECK(said<link::Sealed>(actions, newer).size() == (is_there ? 0 : 1));
    CHECK(said<link::Refused>(actions, newer).size() == (is_there ? 1 : 0));
  }
}

TEST_CASE("who leaves hands its seat to whoever came for it") {
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
