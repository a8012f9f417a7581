// SPDX-License-Identifier: BSD-3-Clause
// Found in simulated time (tests/sim): agents that return through newer links, or to a newer
// coordinator.

#include <doctest/doctest.h>

#include <algorithm>

#include "rendezvous/job/job.h"
#include "tests/rendezvous/job/job_table.h"

namespace job_joining_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

bool hangs_up(const coordinator::Actions& actions, LinkId link) {
  return std::any_of(actions.begin(), actions.end(), [link](const coordinator::Action& action) {
    const auto* hang_up = std::get_if<coordinator::HangUp>(&action);
    return hang_up != nullptr && hang_up->link == link;
  });
}

}  // namespace

TEST_CASE("a waiting agent that reconnects is not rejected as a duplicate") {
  Table table;
  table.join(t0, b, node(1));
  const auto actions = back(table, t0 + 1s, node(1));
  CHECK(said<link::Refused>(actions, newer).empty());
  CHECK(hangs_up(actions, b));
  CHECK(table.job.round().size() == 1);
  CHECK(said<link::Sealed>(table.join(t0 + 1s, a, node(0), true), newer).size() == 1);
}

TEST_CASE("a spare that reconnects is notified again") {
  Table table;
  table.seal();
  auto spare = node(1, 2, "spare");
  spare.node_rank.reset();
  table.join(t0, c, spare);
  coordinator::Actions actions;
  table.job.join(t0 + 1s, {newer, "10.0.0.3", false}, spare, actions);
  REQUIRE(said<link::Waiting>(actions, newer).size() == 1);
  CHECK(said<link::Waiting>(actions, newer)[0].spare);
  CHECK(table.job.round().size() == 3);
}

TEST_CASE("another agent with the same host name and pid is a different node") {
  Table table;
  table.join(t0, b, node(1));
  coordinator::Actions actions;
  table.job.join(t0 + 1s, {newer, "10.0.0.77", false}, node(1), actions);
  CHECK(said<link::Waiting>(actions, newer).size() == 1);
  CHECK(said<link::Refused>(table.hear(t0 + 2s, b, link::Heartbeat{}), newer).size() == 1);
  CHECK_FALSE(hangs_up(actions, b));
}

TEST_CASE("a join through an older link that arrives last does not take the seat") {
  Table table;
  table.seal();
  for (const auto& join : {node(1), after(node(1), 1)}) {
    const auto actions = back(table, t0 + 1s, join, LinkId{0});
    REQUIRE(actions.size() == 1);
    CHECK(hangs_up(actions, LinkId{0}));
  }
  CHECK(table.job.round().phase() == Round::Phase::sealed);
  CHECK(table.job.round().find(b) != nullptr);
}

TEST_CASE("a seat whose message was lost with the link costs a round but no restart") {
  Table table;
  table.seal();
  const auto actions = back(table, t0 + 1s, node(1));
  CHECK(said<link::Drain>(actions, a).size() == 1);
  CHECK(said<link::Drain>(actions, newer).empty());
  const auto next = table.hear(t0 + 1s, a, link::Drained{RoundNumber{1}});
  REQUIRE(said<link::Sealed>(next, newer).size() == 1);
  CHECK(said<link::Sealed>(next, newer)[0].round == RoundNumber{2});
  CHECK(said<link::Sealed>(next, newer)[0].restart_count == 0);
}

TEST_CASE("an agent's message about another master's round is not taken for this round") {
  Table table{1};
  table.join(t0, a, node(0), true);
  auto drained = after(node(1), 1);
  drained.idle = true;
  const auto sealed = back(table, t0, drained);
  CHECK(said<link::Sealed>(sealed, newer)[0].round == RoundNumber{2});
  const link::Failed repeated{.round = RoundNumber{1}, .failure = {.rank = Rank{2}}};
  CHECK(said<link::Drain>(table.hear(t0, newer, repeated), a).empty());
}

TEST_CASE("a node without a seat cannot report a failure of the round") {
  Table table{1};
  table.seal();
  auto spare = node(1, 2, "spare");
  spare.node_rank.reset();
  table.join(t0, c, spare);
  const link::Failed of_another{.round = RoundNumber{1}, .failure = {.rank = Rank{2}}};
  CHECK(said<link::Drain>(table.hear(t0, c, of_another), a).empty());
}

TEST_CASE("a node whose link broke as the job ended receives the end when it reconnects") {
  Table table;
  table.seal();
  table.hear(t0, a, link::Succeeded{RoundNumber{1}});
  table.hear(t0, b, link::Succeeded{RoundNumber{1}});
  table.close(t0, a);
  table.close(t0, b, true);
  CHECK(table.job.round().size() == 1);
  const auto actions = back(table, t0 + 1s, after(node(1), 1));
  REQUIRE(said<link::Finish>(actions, newer).size() == 1);
  CHECK(said<link::Finish>(actions, newer)[0].exit_code == 0);
}

TEST_CASE("a node whose link broke as the job ended is waited for until its lease expires") {
  Table table;
  table.seal();
  table.hear(t0, a, link::Succeeded{RoundNumber{1}});
  table.hear(t0, b, link::Succeeded{RoundNumber{1}});
  table.close(t0, a);
  table.close(t0, b, true);
  CHECK(table.awake(t0 + 3s).empty());
  CHECK(table.job.round().size() == 0);
}

TEST_CASE("a link that is reset after its node has drained costs an elastic job no round") {
  Table table{1, 1, 2};
  const auto any = [](std::string host) {
    return link::Join{
        .job = "j", .host = std::move(host), .pid = 7, .nodes_min = 1, .nodes_max = 2};
  };
  table.join(t0, a, any("alpha"), true);
  table.join(t0, b, any("beta"));
  table.hear(t0, a, link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{0}}});
  table.hear(t0, b, link::Drained{RoundNumber{1}});
  table.close(t0, b, true);
  // All nodes have drained, and one of them reconnects in a moment.
  CHECK(said<link::Sealed>(table.hear(t0, a, link::Drained{RoundNumber{1}}), a).empty());
  auto returning = after(any("beta"), 1);
  returning.idle = true;
  const auto next = back(table, t0 + 50ms, returning);
  REQUIRE(said<link::Sealed>(next, newer).size() == 1);
  CHECK(said<link::Sealed>(next, newer)[0].round == RoundNumber{2});
  CHECK(said<link::Sealed>(next, a)[0].group_world_size == 2);
}

TEST_CASE("a drained node that does not reconnect is waited for until its lease expires") {
  Table table{1, 1, 2};
  const auto any = [](std::string host) {
    return link::Join{
        .job = "j", .host = std::move(host), .pid = 7, .nodes_min = 1, .nodes_max = 2};
  };
  table.join(t0, a, any("alpha"), true);
  table.join(t0, b, any("beta"));
  table.hear(t0, a, link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{0}}});
  table.hear(t0, b, link::Drained{RoundNumber{1}});
  table.close(t0, b, true);
  table.hear(t0, a, link::Drained{RoundNumber{1}});
  const auto alone = table.awake(t0 + 3s);
  REQUIRE(said<link::Sealed>(alone, a).size() == 1);
  CHECK(said<link::Sealed>(alone, a)[0].group_world_size == 1);
}

TEST_CASE("a drained node whose process ended is not waited for") {
  Table table{1, 1, 2};
  const auto any = [](std::string host) {
    return link::Join{
        .job = "j", .host = std::move(host), .pid = 7, .nodes_min = 1, .nodes_max = 2};
  };
  table.join(t0, a, any("alpha"), true);
  table.join(t0, b, any("beta"));
  table.hear(t0, a, link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{0}}});
  table.hear(t0, b, link::Drained{RoundNumber{1}});
  table.close(t0, b);
  CHECK(said<link::Sealed>(table.hear(t0, a, link::Drained{RoundNumber{1}}), a).size() == 1);
}

TEST_CASE("a node that rejoins may complete the draining round") {
  Table table{2};
  table.seal();
  table.hear(t0, b, link::Succeeded{RoundNumber{1}});
  table.hear(t0, a, link::Failed{.round = RoundNumber{1}, .failure = {.host = "host0"}});
  table.hear(t0, a, link::Drained{RoundNumber{1}});
  // It has drained, its lease has expired, and its message was lost with the link.
  SUBCASE("it is received: the next round follows at once") {
    const auto next = back(table, t0 + 1s, node(1));
    CHECK(said<link::Sealed>(next, a).size() == 1);
    REQUIRE(said<link::Sealed>(next, newer).size() == 1);
    CHECK(said<link::Sealed>(next, newer)[0].restart_count == 1);
  }
  SUBCASE("it is rejected: the others wait for a replacement") {
    auto other = node(1);
    other.lease = std::chrono::milliseconds(1);
    CHECK(said<link::Refused>(back(table, t0 + 1s, other), newer).size() == 1);
    CHECK(table.job.round().phase() == Round::Phase::gathering);
  }
}

TEST_CASE("a node that comes back as another agent breaks the round in which it was running") {
  Table table{2};
  table.seal();
  const auto actions = back(table, t0 + 1s, node(1, 4));
  CHECK(said<link::Drain>(actions, a).size() == 1);
  CHECK(said<link::Finish>(actions, a).empty());
  CHECK(said<link::Sealed>(table.hear(t0 + 1s, a, link::Drained{RoundNumber{1}}), newer).size() ==
        1);
}

TEST_CASE("a node that joins an ended job receives its result, and its link is closed") {
  Table table;
  table.seal();
  table.hear(t0, a, link::Succeeded{RoundNumber{1}});
  table.hear(t0, b, link::Succeeded{RoundNumber{1}});
  auto late = node(1, 2, "late");
  const auto answer = table.join(t0, c, late);
  REQUIRE(said<link::Finish>(answer, c).size() == 1);
  CHECK(said<link::Finish>(answer, c)[0].exit_code == 0);
  CHECK(hangs_up(answer, c));
  CHECK(table.job.round().find(c) == nullptr);
  // A node that may still have workers ends them first.
  CHECK(said<link::Refused>(table.join(t0, c, after(late, 1)), c).size() == 1);
  // A node with other terms belongs to another job and was not late.
  late.nodes_max = 7;
  CHECK(said<link::Refused>(table.join(t0, c, late), c).size() == 1);
}

namespace {

link::Join done(link::Join join, std::uint32_t round) {
  join = after(join, round);
  join.idle = join.done = true;
  return join;
}

}  // namespace

TEST_CASE("a node that is finished and unreachable keeps its seat until the round ends") {
  Table table{1};
  table.seal();
  table.hear(t0, b, link::Succeeded{RoundNumber{1}});
  const auto silent = table.awake(t0 + 3s);
  CHECK(said<link::Drain>(silent, a).empty());
  CHECK(hangs_up(silent, b));
  table.close(t0 + 3s, b, true);
  CHECK(table.job.round().size() == 2);
  SUBCASE("it returns while the others still run") {
    CHECK(said<link::Refused>(back(table, t0 + 60s, done(node(1), 1)), newer).empty());
    CHECK(said<link::Finish>(table.hear(t0 + 60s, a, link::Succeeded{RoundNumber{1}}), newer)
              .size() == 1);
  }
  SUBCASE("it returns after the job has ended, within a lease") {
    table.hear(t0 + 60s, a, link::Succeeded{RoundNumber{1}});
    CHECK(said<link::Finish>(back(table, t0 + 62s, done(node(1), 1)), newer).size() == 1);
  }
  SUBCASE("it does not return") {
    table.hear(t0 + 60s, a, link::Succeeded{RoundNumber{1}});
    table.close(t0 + 60s, a);
    table.awake(t0 + 63s);
    CHECK(table.job.round().size() == 0);
  }
  SUBCASE("the round breaks: its drain is not waited for, and it may join as a new node") {
    table.hear(t0 + 60s, a, link::Failed{.round = RoundNumber{1}, .failure = {.host = "host0"}});
    table.hear(t0 + 60s, a, link::Drained{RoundNumber{1}});
    CHECK(table.job.round().phase() == Round::Phase::gathering);
    const auto next = back(table, t0 + 61s, done(node(1), 1));
    REQUIRE(said<link::Sealed>(next, newer).size() == 1);
    CHECK(said<link::Sealed>(next, newer)[0].round == RoundNumber{2});
  }
}

TEST_CASE("a node that asks for the end of an unknown round does not start another round") {
  Table table;
  const auto refused = said<link::Refused>(back(table, t0, done(node(1), 3)), newer);
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].reason ==
        "all workers of host1 exited with 0 in round 3, which this master does not know: this is a "
        "different master, or the job has ended and its record was removed");
}

TEST_CASE("a node that reconnects from another address has its workers admitted from both") {
  Table table;
  table.seal();
  CHECK_FALSE(table.job.admit("10.0.0.3").has_value());
  table.close(t0 + 1s, b, true);
  link::Join back = node(1);
  back.after = RoundNumber{1};
  table.join(t0 + 2s, c, back);
  CHECK(table.job.admit("10.0.0.2").has_value());
  CHECK(table.job.admit("10.0.0.3").has_value());
}

}  // namespace job_joining_test
