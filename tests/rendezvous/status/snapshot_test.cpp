// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/snapshot.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/rendezvous/job/job_table.h"

namespace snapshot_test {

using namespace cpprun;
using namespace cpprun::testing;
using namespace std::chrono_literals;

TEST_CASE("a job without nodes is waiting for them") {
  const Table table(2);
  const auto job = snapshot_of(table.job, t0);
  CHECK(job.state == JobState::gathering);
  CHECK_FALSE(job.since);
  CHECK(job.round == RoundNumber{0});
  CHECK(job.restarts_left == 2);
  CHECK(job.nodes == NodeCounts{});
  CHECK_FALSE(job.silence_max);
  CHECK(nodes_of(table.job, t0, {.nodes_max = 10}).nodes.empty());
}

TEST_CASE("a running job shows its round, its nodes and the longest silence") {
  Table table;
  table.seal();
  table.hear(t0 + 1s, b, link::Heartbeat{});
  const auto job = snapshot_of(table.job, t0 + 2s);
  CHECK(job.state == JobState::running);
  CHECK(job.since == t0);
  CHECK(job.round == RoundNumber{1});
  CHECK(job.world_size == 4);
  CHECK(job.nodes.running == 2);
  CHECK(job.lease == 3s);
  // The first node is in the coordinator's own process and needs no lease.
  CHECK(job.silence_max == 1s);
  const auto page = nodes_of(table.job, t0 + 2s, {.nodes_max = 10});
  REQUIRE(page.nodes.size() == 2);
  CHECK(page.nodes[0].local);
  CHECK_FALSE(page.nodes[0].silence);
  CHECK(page.nodes[1].host == "host1");
  CHECK(page.nodes[1].node == GroupRank{1});
  CHECK(page.nodes[1].base_rank == Rank{2});
  CHECK(page.nodes[1].silence == 1s);
  CHECK(page.nodes[1].state == Member::State::running);
  CHECK_FALSE(page.next);
}

TEST_CASE("a failure is shown at once, and so is the cause of every broken round") {
  Table table(3);
  table.seal();
  table.hear(t0 + 4s, b,
             link::Failed{.round = RoundNumber{1},
                          .failure = {.rank = Rank{3}, .status = {true, 9}, .cause = "killed"}});
  const auto draining = details_of(table.job, t0 + 5s);
  CHECK(draining.job.state == JobState::draining);
  CHECK(draining.waits_for.find("to stop the workers") != std::string::npos);
  REQUIRE(draining.rounds.size() == 1);
  CHECK_FALSE(draining.rounds[0].ended);
  CHECK(draining.rounds[0].root->rank == Rank{3});
  table.drained(t0 + 6s, 1, {a, b});
  const auto again = details_of(table.job, t0 + 7s);
  CHECK(again.job.state == JobState::running);
  CHECK(again.job.restarts_used == 1);
  CHECK(again.job.restarts_left == 2);
  CHECK(again.job.restarts_by_cause.at("killed") == 1);
  REQUIRE(again.rounds.size() == 2);
  CHECK(again.rounds[0].ended == t0 + 6s);
  CHECK(again.rounds[0].root->cause == "killed");
  CHECK_FALSE(again.rounds[1].root);
}

TEST_CASE("a job that pauses before a restart says so, and for how long") {
  Table table(
      JobTerms{.id = "j", .nodes_min = 2, .nodes_max = 2, .restarts = {.max = 3, .backoff = 10s}});
  table.seal();
  table.hear(
      t0 + 4s, b,
      link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{3}, .status = {false, 1}}});
  table.drained(t0 + 6s, 1, {a, b});
  const auto details = details_of(table.job, t0 + 7s);
  CHECK(details.job.state == JobState::pausing);
  CHECK(details.job.since == t0 + 6s);
  CHECK(details.waits_for == "rank 3 on host1 failed: restart 1 of 3, in 9 s (--restart-backoff)");
}

TEST_CASE("an ended job shows its result") {
  Table table;
  table.seal();
  table.hear(t0 + 4s, a, link::Succeeded{RoundNumber{1}});
  table.hear(t0 + 5s, b, link::Succeeded{RoundNumber{1}});
  const auto job = snapshot_of(table.job, t0 + 6s);
  CHECK(job.state == JobState::over);
  CHECK(job.since == t0 + 5s);
  REQUIRE(job.finish);
  CHECK(job.finish->exit_code == 0);
  CHECK(job.nodes.succeeded == 2);
}

TEST_CASE("time accounting is summed up only on request") {
  Table table;
  table.seal();
  CHECK(snapshot_of(table.job, t0 + 9s).time == TimeUse{});
  CHECK(measured(table.job, t0 + 9s).time == table.job.rounds().time().told(t0 + 9s));
  CHECK(measured(table.job, t0 + 9s).time.wall > Duration{});
}

TEST_CASE("pages list every node once, those with a seat first, even if nodes join meanwhile") {
  constexpr int nodes = 100;
  Table table(0, 2, nodes);
  for (int at = 0; at < nodes; ++at) {
    link::Join join = node(at);
    join.node_rank.reset();
    join.nodes_max = nodes;
    table.join(t0, LinkId{static_cast<std::uint64_t>(at + 1)}, join);
  }
  for (std::uint64_t spare = 201; spare <= 205; ++spare) {
    link::Join join = node(static_cast<int>(spare));
    join.node_rank.reset();
    join.nodes_max = nodes;
    table.join(t0 + 1s, LinkId{spare}, join);
  }
  std::set<std::string> hosts;
  std::optional<NodePosition> after;
  std::size_t pages = 0;
  do {
    const NodePage page = nodes_of(table.job, t0 + 1s, {.after = after, .nodes_max = 7});
    CHECK(page.nodes.size() <= 7);
    for (const auto& each : page.nodes) CHECK(hosts.insert(each.host).second);
    after = page.next;
    if (after) after = node_place(to_text(*after));
    ++pages;
  } while (after);
  CHECK(hosts.size() == nodes + 5);
  CHECK(pages == 15);
}

TEST_CASE("a page position is parsed as it is printed, and anything else is rejected") {
  CHECK(to_text(NodePosition{.node = GroupRank{12}, .link = LinkId{7}}) == "12");
  CHECK(to_text(NodePosition{.link = LinkId{7}}) == "w7");
  CHECK(node_place("12")->node == GroupRank{12});
  CHECK(node_place("w7")->link == LinkId{7});
  for (const char* text : {"", "w", "-1", "12x", "w-1", "99999999999", " 1", "ww1"}) {
    CAPTURE(text);
    CHECK_FALSE(node_place(text));
  }
}

TEST_CASE("a monotonic time is converted to wall-clock time") {
  const ClockPair moment{.now = t0 + 10s, .wall = WallTime{} + 1000s};
  CHECK(moment.by_wall(t0 + 4s) == WallTime{} + 994s);
}

}  // namespace snapshot_test
