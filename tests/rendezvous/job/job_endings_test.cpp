// SPDX-License-Identifier: BSD-3-Clause
// How a job ends or continues: the root cause, the cause of a restart, the origin of a stop.

#include <doctest/doctest.h>

#include "rendezvous/job/job_rounds.h"
#include "tests/rendezvous/job/job_table.h"

namespace job_endings_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

constexpr RoundNumber first{1};

// Noticed at that time by the node's own clock; these clocks started with the coordinator's.
link::Failed failure_of(int rank, Duration noticed, bool consequence = false, int code = 1) {
  return {.round = first,
          .failure = {.rank = Rank{rank},
                      .host = rank < 2 ? "host0" : "host1",
                      .status = {.signalled = false, .value = code},
                      .consequence = consequence},
          .noticed = std::chrono::duration_cast<link::AgentTime>(noticed)};
}

JobTerms two_nodes(int restarts_max) {
  return {.id = "j", .nodes_min = 2, .nodes_max = 2, .restarts = {.max = restarts_max}};
}

}  // namespace

TEST_CASE("the failure that is reported last is the root if it was the first") {
  Table table;
  table.seal();
  // Node 0 notices a lost connection at once; node 1 reports the death 90 ms late.
  table.hear(t0 + 1010ms, a, failure_of(0, 1010ms, false, 7));
  table.hear(t0 + 1095ms, b, failure_of(3, 1000ms, false, 9));
  table.drained(t0 + 2s, 1, {b});
  const auto finish = said<link::Finish>(table.drained(t0 + 2s, 1, {a}), a);
  REQUIRE(finish.size() == 1);
  CHECK(finish[0].root->rank == Rank{3});
  CHECK(finish[0].exit_code == 9);
  CHECK(finish[0].reason == "rank 3 on host1 failed");
  CHECK(finish[0].consequences == std::vector<link::Consequence>{{Rank{0}, {}, {false, 7}}});
}

TEST_CASE("failures are ordered after the clocks of their nodes are corrected") {
  Table table;
  auto later = node(1);
  later.sent = -50s;  // this node's clock is fifty seconds behind the coordinator's
  table.join(t0, a, node(0), true);
  table.join(t0, b, later);
  table.hear(t0 + 10s, b, failure_of(3, -41s));  // 9 s by the coordinator's
  table.hear(t0 + 10s, a, failure_of(0, 8s));
  table.drained(t0 + 11s, 1, {b});
  CHECK(said<link::Finish>(table.drained(t0 + 11s, 1, {a}), a)[0].root->rank == Rank{0});
}

TEST_CASE("a known consequence of a peer's end is not the root, although it was first") {
  Table table;
  table.seal();
  table.hear(t0 + 1s, a, failure_of(0, 1s, true));
  table.hear(t0 + 2s, b, failure_of(3, 2s));
  table.drained(t0 + 2s, 1, {b});
  CHECK(said<link::Finish>(table.drained(t0 + 2s, 1, {a}), b)[0].root->rank == Rank{3});
}

TEST_CASE("a node that is lost during a drain is the cause of the other failures") {
  Table table;
  table.seal();
  table.hear(t0 + 1s, b, link::Heartbeat{.sent = 1s});
  table.hear(t0 + 2s, a, failure_of(0, 2s, true));
  table.drained(t0 + 2s, 1, {a});
  const auto finish = said<link::Finish>(table.awake(t0 + 4s), a);
  REQUIRE(finish.size() == 1);
  CHECK(finish[0].root->cause == "node_lost");
  CHECK(finish[0].reason == "node 1 on host1 is lost");
  CHECK(finish[0].consequence_count == 1);
}

TEST_CASE("ranks that finished with 0 before another failed come back for the next round") {
  Table table{1};
  table.seal();
  table.hear(t0, a, link::Succeeded{first});
  const auto broken = table.hear(t0 + 1h, b, failure_of(3, 1h));
  CHECK(said<link::Drain>(broken, a).size() == 1);
  const auto next = table.drained(t0 + 1h, 1, {b, a});
  CHECK(said<link::Sealed>(next, a)[0].restart_count == 1);
}

TEST_CASE("a job ends with the code of a final failure although other ranks finished with 0") {
  Table table;
  table.seal();
  table.hear(t0, a, link::Succeeded{first});
  table.hear(t0 + 1s, b, failure_of(3, 1s, false, 4));
  CHECK(said<link::Finish>(table.drained(t0 + 1s, 1, {a, b}), a)[0].exit_code == 4);
}

TEST_CASE("a worker may finish hours before its peers") {
  Table table;
  table.seal();
  CHECK(table.hear(t0 + 1s, a, link::Succeeded{first}).empty());
  for (int minute = 0; minute < 600; ++minute) {
    table.hear(t0 + minute * 2s, b, link::Heartbeat{});
    CHECK(table.advance(t0 + minute * 2s + 1s).empty());
  }
  const auto over = table.hear(t0 + 1200s, b, link::Succeeded{first});
  CHECK(said<link::Finish>(over, a).size() == 1);
  CHECK(said<link::Finish>(over, b).size() == 1);
}

TEST_CASE("an exit code listed as final ends the job, and the reason names it") {
  JobTerms terms = two_nodes(3);
  terms.restarts.final_codes = {2};
  Table table{terms};
  table.seal();
  table.hear(t0, b, failure_of(3, 0s, false, 2));
  const auto finish = said<link::Finish>(table.drained(t0, 1, {b, a}), a);
  REQUIRE(finish.size() == 1);
  CHECK(finish[0].exit_code == 2);
  CHECK(finish[0].reason ==
        "rank 3 on host1 failed; not restarted: exit code 2 is listed in --no-restart-codes");
}

TEST_CASE("the next round starts after the restart delay, and all nodes know its length") {
  JobTerms terms = two_nodes(3);
  terms.restarts.backoff = 2s;
  Table table{terms};
  table.seal();
  table.hear(t0, b, failure_of(3, 0s));
  const auto paused = table.drained(t0, 1, {b, a});
  CHECK(said<link::Sealed>(paused, a).empty());
  CHECK(said<link::Waiting>(paused, b)[0].reason ==
        "rank 3 on host1 failed: restart 1 of 3, in 2 s (--restart-backoff)");
  CHECK(table.job.next_deadline() == t0 + 2s);
  CHECK(said<link::Sealed>(table.advance(t0 + 2s), b)[0].restart_count == 1);
}

TEST_CASE("a node that is asked to stop during the restart delay ends a fixed-size job") {
  JobTerms terms = two_nodes(3);
  terms.restarts.backoff = 60s;
  Table table{terms};
  table.seal();
  table.hear(t0, b, failure_of(3, 0s));
  table.drained(t0, 1, {b, a});
  const auto over = table.hear(t0 + 1s, b, link::Leave{.signal = 15, .reason = "asked to stop"});
  CHECK(said<link::Finish>(over, a)[0].exit_code == 143);
  CHECK(said<link::Finish>(over, a)[0].reason == "node 1 on host1 left: asked to stop");
}

TEST_CASE("workers that fail because a node was stopped cost no restart and are not blamed") {
  Table table{3};
  table.seal();
  table.hear(t0 + 1s, b, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  table.hear(t0 + 2s, a, failure_of(0, 2s));
  const auto finish = said<link::Finish>(table.drained(t0 + 3s, 1, {b, a}), a);
  CHECK(finish[0].exit_code == 143);
  CHECK_FALSE(finish[0].root);
}

TEST_CASE("a failure before the stop determines the exit code") {
  Table table;
  table.seal();
  table.hear(t0 + 1s, a, failure_of(0, 1s, false, 5));
  table.hear(t0 + 2s, b, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  CHECK(said<link::Finish>(table.drained(t0 + 3s, 1, {b, a}), a)[0].exit_code == 5);
}

TEST_CASE("remote nodes receive a short end report, and the master's node the complete one") {
  Table table;
  table.seal();
  auto talkative = failure_of(3, 1s);
  talkative.failure.message = std::string(2000, 'x');
  table.hear(t0 + 1s, b, talkative);
  const auto over = table.drained(t0 + 1s, 1, {b, a});
  CHECK(said<link::Finish>(over, a)[0].root->message.size() == 2000);
  CHECK(said<link::Finish>(over, b)[0].root->message.size() < 500);
}

TEST_CASE("a node reports only its own workers, and cannot set what the coordinator decides") {
  Table table;
  table.seal();
  link::Failed of_another = failure_of(0, 1s, false, 9);
  const auto lied = table.hear(t0 + 1s, b, of_another);
  CHECK(said<link::Drain>(lied, a).empty());
  REQUIRE(lied.size() == 1);
  CHECK(std::get<coordinator::HangUp>(lied[0]).reason ==
        "reported rank 0, which does not belong to node 1 on host1");
  link::Failed dressed_up = failure_of(3, 1s, false, 9);
  dressed_up.failure.host = "host0";
  dressed_up.failure.group_rank = GroupRank{0};
  table.hear(t0 + 1s, b, dressed_up);
  const auto over = said<link::Finish>(table.drained(t0 + 2s, 1, {b, a}), a);
  REQUIRE(over.size() == 1);
  CHECK(over[0].root->host == "host1");
  CHECK(over[0].root->group_rank == GroupRank{1});
  CHECK(over[0].root->local_rank == LocalRank{1});
}

TEST_CASE("a drain from a node without a seat is ignored, and a failed job does not end with 0") {
  Table table;
  table.seal();
  auto spare = node(1, 2, "spare");
  spare.node_rank.reset();
  table.join(t0, c, spare);
  table.hear(t0, b, failure_of(3, 0s, false, 0));
  table.hear(t0, c, link::Drained{first});
  CHECK(table.job.round().count(Member::State::drained) == 0);
  CHECK(said<link::Finish>(table.drained(t0, 1, {a, b}), a)[0].exit_code == 1);
}

TEST_CASE("a job ends once, however many nodes ask to leave") {
  JobTerms terms = two_nodes(3);
  terms.restarts.backoff = 60s;
  Table table{terms};
  table.seal();
  table.hear(t0, b, failure_of(3, 0s));
  table.drained(t0, 1, {b, a});
  CHECK(said<link::Finish>(table.hear(t0, b, link::Leave{.signal = 15}), a).size() == 1);
  CHECK(said<link::Finish>(table.hear(t0, a, link::Leave{.signal = 2}), b).empty());
}

TEST_CASE("after the end no node is asked to drain") {
  Table table;
  table.seal();
  table.hear(t0, a, link::Succeeded{first});
  REQUIRE(said<link::Finish>(table.hear(t0, b, link::Succeeded{first}), a).size() == 1);
  CHECK(table.hear(t0, b, link::Leave{.signal = 15, .reason = "asked to stop"}).empty());
  CHECK(table.hear(t0, a, failure_of(0, 1s)).empty());
  CHECK(said<link::Drain>(table.advance(t0 + 3s), a).empty());
}

TEST_CASE("a failure after a stop is its consequence, whichever is reported first") {
  Table table{3};
  table.seal();
  const link::Leave leave{.signal = 15, .reason = "asked to stop by SIGTERM", .asked = 1s};
  SUBCASE("the stop is reported first, and late") {
    table.hear(t0 + 2s, a, leave);
    table.hear(t0 + 2s, a, failure_of(0, 1100ms));
  }
  SUBCASE("the failure is reported first") {
    table.hear(t0 + 2s, a, failure_of(0, 1100ms));
    table.hear(t0 + 2s, a, leave);
  }
  const auto finish = said<link::Finish>(table.drained(t0 + 3s, 1, {b, a}), a);
  REQUIRE(finish.size() == 1);
  CHECK(finish[0].exit_code == 143);
  CHECK_FALSE(finish[0].root);
  CHECK(finish[0].reason == "node 0 on host0 leaves: asked to stop by SIGTERM");
}

TEST_CASE("the node that leaves states why there is no restart") {
  Table table{3};
  table.seal();
  table.hear(t0 + 1s, a, failure_of(0, 1s, false, 5));
  const auto reason_after = [&](const link::Leave& leave) {
    table.hear(t0 + 2s, b, leave);
    const auto over = said<link::Finish>(table.drained(t0 + 3s, 1, {b, a}), a);
    return over.empty() ? "" : over[0].reason;
  };
  SUBCASE("its timeout expired when the round was sealed") {
    CHECK(reason_after({.signal = 0, .reason = "gave up after 20 s: 4 of 5 nodes have joined"}) ==
          "rank 0 on host0 failed; not restarted: node 1 on host1 leaves: gave up after 20 s: 4 of "
          "5 nodes have joined");
  }
  SUBCASE("it was asked to stop") {
    CHECK(
        reason_after({.signal = 15, .reason = "asked to stop by SIGTERM"}) ==
        "rank 0 on host0 failed; not restarted: node 1 on host1 leaves: asked to stop by SIGTERM");
  }
}

TEST_CASE(
    "a lost node with a restart budget costs a restart, and the job ends when it is used up") {
  JobTerms terms = two_nodes(0);
  terms.restarts.budgets = {{"node", 1}};
  Table table{terms};
  table.seal();
  table.close(t0 + 1s, b);
  table.awake(t0 + 4s);
  table.drained(t0 + 4s, 1, {a});
  CHECK(table.job.rounds().policy().restarts_used() == 1);
  CHECK_FALSE(table.job.over());
  const auto sealed = table.join(t0 + 5s, c, node(1));
  CHECK(said<link::Sealed>(sealed, a)[0].restart_count == 1);
  table.close(t0 + 6s, c);
  table.awake(t0 + 9s);
  const auto finish = said<link::Finish>(table.drained(t0 + 9s, 2, {a}), a);
  REQUIRE(finish.size() == 1);
  CHECK(finish[0].reason.ends_with("not restarted: all 1 restarts after node are used"));
}

TEST_CASE("the progress of a round is the maximum of its nodes") {
  JobTerms terms = two_nodes(9);
  terms.restarts.fruitless_max = 1;
  Table table{terms};
  table.seal();
  const auto end_at = [&](std::uint32_t round, std::uint64_t far, std::uint64_t near) {
    const TimePoint at = t0 + round * 100s;
    auto failed = failure_of(3, 0s);
    failed.round = RoundNumber{round};
    table.hear(at, b, failed);
    table.hear(at, a, link::Drained{.round = RoundNumber{round}, .reached = {.step = far}});
    return table.hear(at, b, link::Drained{.round = RoundNumber{round}, .reached = {.step = near}});
  };
  CHECK(said<link::Finish>(end_at(1, 10, 9), a).empty());
  CHECK(said<link::Finish>(end_at(2, 10, 11), a).empty());
  const auto finish = said<link::Finish>(end_at(3, 5, 11), a);
  REQUIRE(finish.size() == 1);
  CHECK(finish[0].reason.ends_with("made no progress beyond step 11 (--max-no-progress=1)"));
}

TEST_CASE("a rank that ended with 0 while the others communicated is named") {
  Table table;
  table.seal();
  auto gone = failure_of(0, 13s, true, 6);
  gone.failure.cause = "peer_gone";
  table.hear(t0 + 13s, a, gone);
  auto left = failure_of(2, 12900ms, true);
  left.failure.cause = left_early;
  table.hear(t0 + 14s, b, left);
  table.drained(t0 + 14s, 1, {b});
  const auto finish = said<link::Finish>(table.drained(t0 + 14s, 1, {a}), a);
  REQUIRE(finish.size() == 1);
  CHECK(finish[0].exit_code == 6);
  CHECK(finish[0].root->rank == Rank{2});
  CHECK(finish[0].root->host == "host1");
  CHECK(finish[0].root->group_rank == GroupRank{1});
  CHECK(finish[0].root->cause == left_early);
  CHECK(finish[0].consequences == std::vector<link::Consequence>{{Rank{0}, {}, {false, 6}}});
}

TEST_CASE("a rank that ended with 0 is no failure where only the membership changes") {
  Table table(0, 1, 2);
  table.join(t0, a, node(0), true);
  table.join(t0, b, node(1));
  auto left = failure_of(2, 1s, true);
  left.failure.cause = left_early;
  table.hear(t0 + 2s, b, left);
  CHECK_FALSE(table.job.over());
}

}  // namespace job_endings_test
