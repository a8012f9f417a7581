// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job.h"

#include <doctest/doctest.h>

#include "tests/rendezvous/job/job_table.h"

namespace job_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

link::Failed failed_with(int code, RoundNumber round = RoundNumber{1}, int rank = 3) {
  return {.round = round,
          .failure = {.rank = Rank{rank},
                      .host = "host1",
                      .pid = 7,
                      .status = {.signalled = false, .value = code},
                      .message = "exited"}};
}

}  // namespace

TEST_CASE("a round is sealed when the last node joins, whichever was first") {
  Table table;
  CHECK(table.join(t0, b, node(1, 3)) ==
        coordinator::Actions{coordinator::NodeChange{.host = "host1", .reason = ""}});
  const auto actions = table.join(t0 + 1s, a, node(0, 1), true);
  REQUIRE(actions.size() > 2);
  CHECK(std::holds_alternative<coordinator::NodeChange>(actions[0]));
  // Before any node gets its seat, so that no node finds the keys of another round.
  CHECK(std::holds_alternative<coordinator::ResetStore>(actions[1]));
  CHECK(said<link::Sealed>(actions, a) == std::vector{link::Sealed{.round = RoundNumber{1},
                                                                   .group_rank = GroupRank{0},
                                                                   .group_world_size = 2,
                                                                   .base_rank = Rank{0},
                                                                   .world_size = 4,
                                                                   .role_world_size = 4,
                                                                   .store_port = 29500,
                                                                   .neighbour = {"10.0.0.2"},
                                                                   .captures_timeouts = true}});
  CHECK(said<link::Sealed>(actions, b) == std::vector{link::Sealed{.round = RoundNumber{1},
                                                                   .group_rank = GroupRank{1},
                                                                   .group_world_size = 2,
                                                                   .base_rank = Rank{1},
                                                                   .world_size = 4,
                                                                   .role_base_rank = 1,
                                                                   .role_world_size = 4,
                                                                   .store_port = 29500,
                                                                   .captures_timeouts = true}});
}

TEST_CASE("nodes that wait receive the list of missing nodes") {
  Table table;
  table.join(t0, b, node(1));
  CHECK(table.job.next_deadline() < t0 + 3s);  // the lease
  table.hear(t0 + 2s, b, link::Heartbeat{});
  table.hear(t0 + 4s, b, link::Heartbeat{});
  CHECK(said<link::Waiting>(table.advance(t0 + 5s), b) ==
        std::vector{link::Waiting{"1 of 2 nodes have joined; missing: node rank 0"}});
}

TEST_CASE("the second node with the same node rank is rejected, and the reason names both") {
  Table table;
  table.join(t0, a, node(0, 2, "alpha"), true);
  const auto actions = table.join(t0, b, node(0, 2, "beta"));
  REQUIRE(said<link::Refused>(actions, b).size() == 1);
  CHECK(said<link::Refused>(actions, b)[0].reason ==
        "node rank 0 is taken by alpha (pid 100), but beta (pid 100) has the same; give each node "
        "its own --node-rank, from 0 to 1");
  CHECK(std::holds_alternative<coordinator::HangUp>(actions[1]));
  CHECK(table.job.round().size() == 1);
}

TEST_CASE("a node with other terms is rejected, and the reason names the terms of both") {
  Table table;
  auto other = node(1);
  other.nodes_min = other.nodes_max = 3;
  CHECK(said<link::Refused>(table.join(t0, b, other), b)[0].reason ==
        "this job uses --nnodes=2, but host1 has --nnodes=3; use the same value on every node");
  CHECK(said<link::Refused>(table.join(t0, b, node(2)), b)[0].reason ==
        "--node-rank=2 on host2 is out of range (0 to 1 with --nnodes=2)");
}

TEST_CASE("a job ends with 0 when every worker of every node has ended with 0") {
  Table table;
  table.seal();
  CHECK(table.hear(t0, a, link::Succeeded{RoundNumber{1}}).empty());
  const auto actions = table.hear(t0 + 1h, b, link::Succeeded{RoundNumber{1}});
  CHECK(said<link::Finish>(actions, a)[0].exit_code == 0);
  CHECK(said<link::Finish>(actions, b)[0].exit_code == 0);
  CHECK(table.job.over());
}

TEST_CASE("a failure on one node drains every node and then ends the job with its code") {
  Table table;
  table.seal();
  const auto broken = table.hear(t0, b, failed_with(3));
  CHECK(said<link::Drain>(broken, a) ==
        std::vector{link::Drain{RoundNumber{1}, "rank 3 on host1 failed"}});
  CHECK(table.hear(t0, b, link::Drained{RoundNumber{1}}).empty());
  const auto over = table.hear(t0, a, link::Drained{RoundNumber{1}});
  for (const LinkId link : {a, b}) {
    REQUIRE(said<link::Finish>(over, link).size() == 1);
    CHECK(said<link::Finish>(over, link)[0].exit_code == 3);
    CHECK(said<link::Finish>(over, link)[0].root->rank == Rank{3});
  }
}

TEST_CASE("the first failure is the root cause, and later failures are consequences") {
  Table table;
  table.seal();
  table.hear(t0, b, failed_with(3));
  auto later = failed_with(9, RoundNumber{1}, 0);
  later.noticed = 1s;
  CHECK(table.hear(t0 + 1s, a, later).empty());
  table.hear(t0, a, link::Drained{RoundNumber{1}});
  const auto over = table.hear(t0, b, link::Drained{RoundNumber{1}});
  CHECK(said<link::Finish>(over, a)[0].exit_code == 3);
}

TEST_CASE("with a restart left the next round starts when all nodes have drained") {
  Table table{1};
  table.seal();
  table.hear(t0, b, failed_with(3));
  CHECK(table.hear(t0, b, link::Drained{RoundNumber{1}}).empty());
  const auto next = table.hear(t0, a, link::Drained{RoundNumber{1}});
  CHECK(resets_store(next));
  REQUIRE(said<link::Sealed>(next, b).size() == 1);
  CHECK(said<link::Sealed>(next, b)[0].round == RoundNumber{2});
  CHECK(said<link::Sealed>(next, b)[0].restart_count == 1);
  CHECK(said<link::Sealed>(next, b)[0].group_rank == GroupRank{1});
  // The budget is per job: the next failure of any node ends it.
  table.hear(t0, a, failed_with(4, RoundNumber{2}, 0));
  table.hear(t0, a, link::Drained{RoundNumber{2}});
  const auto over = table.hear(t0, b, link::Drained{RoundNumber{2}});
  CHECK(said<link::Finish>(over, a)[0].exit_code == 4);
}

TEST_CASE("a late message about an old round has no effect") {
  Table table{1};
  table.seal();
  table.hear(t0, b, failed_with(3));
  table.hear(t0, b, link::Drained{RoundNumber{1}});
  table.hear(t0, a, link::Drained{RoundNumber{1}});
  CHECK(table.hear(t0, b, failed_with(3)).empty());
  CHECK(table.hear(t0, b, link::Drained{RoundNumber{1}}).empty());
  CHECK(table.hear(t0, b, link::Succeeded{RoundNumber{1}}).empty());
  CHECK(table.job.round().phase() == Round::Phase::sealed);
}

TEST_CASE("a link that breaks and resumes within the lease has no effect on the job") {
  Table table;
  table.seal();
  CHECK(said<link::Drain>(table.close(t0 + 1s, b), a).empty());
  auto again = node(1);
  again.after = RoundNumber{1};
  const auto back = table.join(t0 + 2s, c, again);
  CHECK(said<link::Refused>(back, c).empty());
  CHECK(said<link::Drain>(table.advance(t0 + 4s), a).empty());
  table.hear(t0 + 4s, a, link::Succeeded{RoundNumber{1}});
  CHECK(said<link::Finish>(table.hear(t0 + 4s, c, link::Succeeded{RoundNumber{1}}), c).size() == 1);
}

TEST_CASE(
    "a node that is silent for the lease is lost: the others drain, and the report names it") {
  Table table;
  table.seal();
  table.close(t0 + 1s, b);
  CHECK(table.job.next_deadline() < t0 + 3s);
  CHECK(table.awake(t0 + 3s - 1ns).empty());
  CHECK(said<link::Drain>(table.awake(t0 + 3s), a) ==
        std::vector{link::Drain{RoundNumber{1}, "node 1 on host1 is lost"}});
  const auto over = table.hear(t0 + 3s, a, link::Drained{RoundNumber{1}});
  const auto finish = said<link::Finish>(over, a);
  REQUIRE(finish.size() == 1);
  CHECK(finish[0].exit_code == 1);
  CHECK(finish[0].root->host == "host1");
  CHECK(finish[0].root->rank == Rank{2});
}

TEST_CASE("a drain request that was missed during a broken link is repeated when it resumes") {
  Table table;
  table.seal();
  table.close(t0, b);
  table.hear(t0, a, failed_with(3, RoundNumber{1}, 0));
  auto again = node(1);
  again.after = RoundNumber{1};
  CHECK(said<link::Drain>(table.join(t0 + 1s, c, again), c).size() == 1);
}

TEST_CASE("the replacement of a lost node takes its seat, which costs no restart") {
  Table table{1};
  table.seal();
  table.close(t0, b);
  table.awake(t0 + 3s);
  table.hear(t0 + 3s, a, link::Drained{RoundNumber{1}});
  CHECK(table.job.round().phase() == Round::Phase::gathering);
  CHECK(said<link::Waiting>(table.advance(t0 + 8s), a)[0].reason ==
        "1 of 2 nodes have joined; missing: node rank 1");
  const auto sealed = table.join(t0 + 9s, c, node(1, 2, "spare"));
  CHECK(said<link::Sealed>(sealed, c)[0].group_rank == GroupRank{1});
  CHECK(said<link::Sealed>(sealed, a)[0].restart_count == 0);
}

TEST_CASE("a node that was asked to stop ends the job on all nodes with the signal's code") {
  Table table{5};
  table.seal();
  const auto drain =
      table.hear(t0, b, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  CHECK(said<link::Drain>(drain, a)[0].reason ==
        "node 1 on host1 leaves: asked to stop by SIGTERM");
  table.hear(t0, b, link::Drained{RoundNumber{1}});
  table.close(t0, b);
  const auto over = table.hear(t0, a, link::Drained{RoundNumber{1}});
  CHECK(said<link::Finish>(over, a)[0].exit_code == 143);
}

TEST_CASE("a node that gives up waiting frees its seat; a master that does so ends the job") {
  Table table;
  table.join(t0, b, node(1));
  table.hear(t0, b, link::Leave{.signal = 2, .reason = "asked to stop by SIGINT"});
  CHECK(table.job.round().size() == 0);
  table.join(t0, a, node(0), true);
  const auto over = table.hear(t0, a, link::Leave{.signal = 0, .reason = "gave up"});
  CHECK(said<link::Finish>(over, a)[0].exit_code == 1);
  const auto late = table.join(t0, c, node(1));
  REQUIRE(said<link::Finish>(late, c).size() == 1);
  CHECK(said<link::Finish>(late, c)[0].exit_code == 1);
}

TEST_CASE("a drained message counts only while the round drains") {
  Table table;
  table.seal();
  CHECK(table.hear(t0, b, link::Drained{RoundNumber{1}}).empty());
  CHECK(table.hear(t0, a, link::Succeeded{RoundNumber{1}}).empty());
  CHECK_FALSE(table.job.over());
}

TEST_CASE(
    "store clients are admitted from the addresses of the members' links while a round runs") {
  Table table;
  auto second = node(1);
  second.addresses = {"fd00::2"};
  CHECK_FALSE(table.job.admit("127.0.0.1").has_value());
  table.join(t0, a, node(0), true);
  table.join(t0, b, second);
  CHECK(table.job.admit("127.0.0.1").has_value());
  CHECK(table.job.admit("10.0.0.2").has_value());
  CHECK_FALSE(table.job.admit("fd00::2").has_value());
  CHECK_FALSE(table.job.admit("10.0.0.9").has_value());
}

TEST_CASE("every node receives the master's addresses, and the master receives another node's") {
  Table table;
  link::Join master = node(0);
  master.addresses = {"10.0.0.1", "fd00::1"};
  link::Join second = node(1);
  second.addresses = {"10.0.0.2", "10.1.0.2", "10.2.0.2", "10.3.0.2", "10.4.0.2"};
  table.join(t0, a, master, true);
  const auto actions = table.join(t0, b, second);
  CHECK(said<link::Sealed>(actions, b)[0].neighbour == master.addresses);
  CHECK(said<link::Sealed>(actions, a)[0].neighbour ==
        std::vector<std::string>{"10.0.0.2", "10.1.0.2", "10.2.0.2", "10.3.0.2"});
}

TEST_CASE("a worker that is asked to end may still connect, to save its data") {
  Table table{1};
  CHECK_FALSE(table.job.admit("10.0.0.2"));
  table.seal();
  CHECK(table.job.admit("10.0.0.2"));
  CHECK_FALSE(table.job.admit("10.0.0.9"));
  table.hear(
      t0 + 1s, b,
      link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{3}, .status = {false, 1}}});
  REQUIRE(table.job.round().phase() == Round::Phase::draining);
  CHECK(table.job.admit("10.0.0.2"));
  CHECK_FALSE(table.job.admit("10.0.0.9"));
}

}  // namespace job_test
