// SPDX-License-Identifier: BSD-3-Clause
// The rules of a job whose membership changes: ranges of nodes, spares, nodes that join and leave.

#include <doctest/doctest.h>

#include "rendezvous/job/job.h"
#include "tests/rendezvous/job/job_table.h"

namespace job_elastic_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

// Any node of an elastic job of 2 to 3 nodes.
link::Join elastic(std::string host) {
  return {.job = "j", .host = std::move(host), .pid = 7, .nodes_min = 2, .nodes_max = 3};
}

}  // namespace

TEST_CASE("with enough nodes the settle window starts, and the round is sealed when it ends") {
  Table table{0, 2, 3};
  table.join(t0, a, elastic("a"), true);
  CHECK(said<link::Sealed>(table.join(t0 + 1s, b, elastic("b")), b).empty());
  for (int s = 2; s <= 30; s += 2) table.hear(t0 + s * 1s, b, link::Heartbeat{});
  const auto sealed = table.advance(t0 + 31s);
  CHECK(said<link::Sealed>(sealed, a)[0].group_world_size == 2);
}

TEST_CASE("with all nodes present the settle window is skipped") {
  Table table{0, 2, 3};
  table.join(t0, a, elastic("a"), true);
  table.join(t0, b, elastic("b"));
  CHECK(said<link::Sealed>(table.join(t0, c, elastic("c")), a)[0].group_world_size == 3);
}

TEST_CASE("elastic: a node that leaves during the settle window may end it") {
  Table table{0, 2, 3};
  table.join(t0, a, elastic("a"), true);
  table.join(t0, b, elastic("b"));
  table.close(t0 + 10s, b);
  CHECK(said<link::Sealed>(table.advance(t0 + 40s), a).empty());
}

TEST_CASE("elastic: while a link is broken, the end of the settle window interrupts no node") {
  Table table{0, 3, 5};
  const auto any = [](std::string host) {
    return link::Join{
        .job = "j", .host = std::move(host), .pid = 7, .nodes_min = 3, .nodes_max = 5};
  };
  for (const LinkId link : {a, b, c})
    table.join(t0, link, any(std::to_string(link.value)), link == a);
  const auto all_send_heartbeats = [&](int from, int to) {
    for (int s = from; s <= to; ++s) {
      for (const LinkId link : {b, c}) table.hear(t0 + s * 1s, link, link::Heartbeat{});
    }
  };
  all_send_heartbeats(1, 30);
  table.advance(t0 + 30s);
  REQUIRE(table.job.round().phase() == Round::Phase::sealed);
  table.close(t0 + 30s, b);
  for (int s = 31; s <= 32; ++s) table.hear(t0 + s * 1s, c, link::Heartbeat{});
  table.awake(t0 + 33s);
  table.drained(t0 + 33s, 1, {a, c});
  const LinkId d{4};
  table.join(t0 + 34s, d, any("d"));
  for (int s = 34; s <= 63; ++s) {
    for (const LinkId link : {c, d}) table.hear(t0 + s * 1s, link, link::Heartbeat{});
  }
  table.close(t0 + 63s, c, /*broken=*/true);
  table.advance(t0 + 64s);
  REQUIRE(table.job.round().phase() == Round::Phase::gathering);
  CHECK(table.job.next_deadline() > t0 + 64s);
}

TEST_CASE("elastic: a lost node costs no restart, and the other nodes continue at once") {
  Table table{0, 2, 3};
  table.join(t0, a, elastic("a"), true);
  table.join(t0, b, elastic("b"));
  table.join(t0, c, elastic("c"));
  table.close(t0, b);
  table.hear(t0 + 1s, c, link::Heartbeat{});
  CHECK(said<link::Drain>(table.awake(t0 + 3s), a).size() == 1);
  table.hear(t0 + 3s, a, link::Drained{RoundNumber{1}});
  const auto next = table.hear(t0 + 3s, c, link::Drained{RoundNumber{1}});
  REQUIRE(said<link::Sealed>(next, c).size() == 1);
  CHECK(said<link::Sealed>(next, c)[0].group_world_size == 2);
  CHECK(said<link::Sealed>(next, c)[0].restart_count == 0);
  CHECK(said<link::Sealed>(next, c)[0].group_rank == GroupRank{1});
}

TEST_CASE("elastic: below MIN the remaining nodes wait for more") {
  Table table{0, 2, 3};
  table.join(t0, a, elastic("a"), true);
  table.join(t0, b, elastic("b"));
  table.join(t0, c, elastic("c"));
  table.close(t0, b);
  table.close(t0, c);
  table.awake(t0 + 3s);
  CHECK(said<link::Finish>(table.hear(t0 + 3s, a, link::Drained{RoundNumber{1}}), a).empty());
  CHECK(said<link::Waiting>(table.advance(t0 + 8s), a)[0].reason ==
        "1 of 3 nodes have joined; at least 2 are needed");
  table.join(t0 + 9s, LinkId{4}, elastic("d"));
  table.hear(t0 + 11s, LinkId{4}, link::Heartbeat{});
  CHECK(table.job.round().phase() == Round::Phase::gathering);
}

TEST_CASE("elastic: new nodes join together, in one restart, when the settle window ends") {
  Table table{0, 1, 3};
  auto one = elastic("a");
  one.nodes_min = 1;
  table.join(t0, a, one, true);
  table.advance(t0 + 30s);
  CHECK(table.job.round().phase() == Round::Phase::sealed);
  auto two = elastic("b");
  two.nodes_min = 1;
  CHECK(said<link::Drain>(table.join(t0 + 40s, b, two), a).empty());
  const auto grow = table.advance(t0 + 70s);
  CHECK(said<link::Drain>(grow, b).empty());
}

TEST_CASE("elastic: a new node that fills the last seat joins at once") {
  Table table{0, 1, 2};
  auto one = elastic("a");
  one.nodes_min = 1;
  one.nodes_max = 2;
  auto two = one;
  two.host = "b";
  table.join(t0, a, one, true);
  table.advance(t0 + 30s);
  const auto polite = table.join(t0 + 40s, b, two);
  CHECK(said<link::Drain>(polite, a)[0].reason == "1 more node joined");
  const auto next = table.hear(t0 + 40s, a, link::Drained{RoundNumber{1}});
  CHECK(said<link::Sealed>(next, a)[0].group_rank == GroupRank{0});
  CHECK(said<link::Sealed>(next, b)[0].group_rank == GroupRank{1});
  CHECK(said<link::Sealed>(next, b)[0].restart_count == 0);
}

TEST_CASE("elastic: a node that is asked to stop leaves alone while enough nodes remain") {
  Table table{0, 1, 2};
  auto one = elastic("a");
  one.nodes_min = 1;
  one.nodes_max = 2;
  auto two = one;
  two.host = "b";
  table.join(t0, a, one, true);
  table.join(t0, b, two);
  table.hear(t0, b, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  table.hear(t0, b, link::Drained{RoundNumber{1}});
  const auto next = table.hear(t0, a, link::Drained{RoundNumber{1}});
  CHECK(said<link::Sealed>(next, a)[0].group_world_size == 1);
  CHECK(said<link::Sealed>(next, b).empty());
}

TEST_CASE("a surplus node waits as a spare and replaces a lost node at once") {
  Table table;
  auto any = elastic("a");
  any.nodes_max = 2;
  auto second = any, third = any;
  second.host = "b";
  third.host = "c";
  table.join(t0, a, any, true);
  table.join(t0, b, second);
  const auto spare = table.join(t0, c, third);
  REQUIRE(said<link::Waiting>(spare, c).size() == 1);
  CHECK(said<link::Waiting>(spare, c)[0].spare);
  table.close(t0, b);
  table.hear(t0 + 2s, c, link::Heartbeat{});
  table.awake(t0 + 3s);
  const auto next = table.hear(t0 + 3s, a, link::Drained{RoundNumber{1}});
  CHECK(said<link::Sealed>(next, c)[0].group_rank == GroupRank{1});
  CHECK(said<link::Sealed>(next, c)[0].restart_count == 0);
}

TEST_CASE("an additional spare is notified, and known spares get no message") {
  Table table;
  table.seal();
  link::Join late = node(0);
  late.node_rank.reset();
  const auto first = table.join(t0 + 1s, c, late);
  CHECK(said<link::Waiting>(first, c).size() == 1);
  const LinkId d{4};
  const auto second = table.join(t0 + 2s, d, late);
  CHECK(said<link::Waiting>(second, d).size() == 1);
  CHECK(said<link::Waiting>(second, c).empty());
}

TEST_CASE("a spare that leaves has no effect, and a remaining spare receives the end of the job") {
  Table table;
  auto any = elastic("a");
  any.nodes_max = 2;
  auto second = any, third = any;
  second.host = "b";
  third.host = "c";
  table.join(t0, a, any, true);
  table.join(t0, b, second);
  table.join(t0, c, third);
  table.hear(t0, a, link::Succeeded{RoundNumber{1}});
  const auto over = table.hear(t0, b, link::Succeeded{RoundNumber{1}});
  CHECK(said<link::Finish>(over, c)[0].exit_code == 0);
}

TEST_CASE("elastic: nodes that are asked to stop one after the other are counted together") {
  Table table{0, 2, 3};
  table.join(t0, a, elastic("a"), true);
  table.join(t0, b, elastic("b"));
  table.join(t0, c, elastic("c"));
  table.hear(t0, b, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  // Without this node one would remain, and the job needs two.
  table.hear(t0 + 1s, c, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  const auto ended = table.drained(t0 + 2s, 1, {b, c, a});
  REQUIRE(said<link::Finish>(ended, a).size() == 1);
  CHECK(said<link::Finish>(ended, a)[0].exit_code == 143);
}

TEST_CASE("elastic: a drained node that is asked to stop gets no seat in the next round") {
  Table table{0, 1, 3};
  for (const auto& [link, host] : {std::pair{a, "a"}, {b, "b"}, {c, "c"}}) {
    auto node = elastic(host);
    node.nodes_min = 1;
    table.join(t0, link, node, link == a);
  }
  table.hear(t0, c, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  table.drained(t0, 1, {b});
  table.hear(t0, b, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  const auto next = table.drained(t0 + 1s, 1, {c, a});
  CHECK(said<link::Sealed>(next, b).empty());
  REQUIRE(said<link::Sealed>(next, a).size() == 1);
  CHECK(said<link::Sealed>(next, a)[0].group_world_size == 1);
}

TEST_CASE("elastic: a new node does not make nodes repeat finished work") {
  Table table{0, 2, 3};
  table.join(t0, a, elastic("a"), true);
  table.join(t0, b, elastic("b"));
  table.advance(t0 + 30s);
  for (int s = 1; s <= 30; ++s) table.hear(t0 + s * 1s, b, link::Heartbeat{});
  table.advance(t0 + 30s);
  REQUIRE(table.job.round().phase() == Round::Phase::sealed);
  table.hear(t0 + 31s, a, link::Succeeded{RoundNumber{1}});
  const auto came = table.join(t0 + 32s, c, elastic("c"));
  CHECK(said<link::Drain>(came, a).empty());
  REQUIRE(said<link::Waiting>(came, c).size() == 1);
  CHECK(said<link::Waiting>(came, c)[0].spare);
  CHECK(said<link::Waiting>(came, c)[0].reason ==
        "some nodes have finished their work; this node is a spare");
  const auto over = table.hear(t0 + 33s, b, link::Succeeded{RoundNumber{1}});
  CHECK(said<link::Finish>(over, c)[0].exit_code == 0);
}

TEST_CASE("elastic: the settle window ends when the first node has finished its work") {
  Table table{0, 1, 4};
  const auto any = [](std::string host) {
    return link::Join{
        .job = "j", .host = std::move(host), .pid = 7, .nodes_min = 1, .nodes_max = 4};
  };
  table.join(t0, a, any("a"), true);
  table.join(t0, b, any("b"));
  for (int s = 1; s <= 30; ++s) table.hear(t0 + s * 1s, b, link::Heartbeat{});
  table.advance(t0 + 30s);
  table.join(t0 + 31s, c, any("c"));
  table.hear(t0 + 32s, a, link::Succeeded{RoundNumber{1}});
  for (int s = 31; s <= 61; ++s) {
    table.hear(t0 + s * 1s, b, link::Heartbeat{});
    table.hear(t0 + s * 1s, c, link::Heartbeat{});
  }
  const auto over = table.advance(t0 + 61s);
  CHECK(said<link::Drain>(over, b).empty());
  REQUIRE(said<link::Waiting>(over, c).size() == 1);
  CHECK(said<link::Waiting>(over, c)[0].spare);
}

}  // namespace job_elastic_test
