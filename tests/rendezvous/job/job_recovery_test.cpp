// SPDX-License-Identifier: BSD-3-Clause
// A job whose coordinator has ended, and another coordinator that resumes it.

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/rendezvous/job/job_table.h"

namespace job_recovery_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

constexpr LinkId old_a{101};
constexpr LinkId old_b{102};
constexpr LinkId new_a{201};
constexpr LinkId new_b{202};

// What that table's job has left, resumed by another coordinator.
struct Next {
  Next(TimePoint now, const Job& before) : Next(now, before.record()) {}
  Next(TimePoint now, const JobRecord& record, bool has_store = false)
      : job(now, record, {.lease = 3s, .status_interval = 5s, .last_call = 30s}, old_a, has_store) {
    CHECK_FALSE(job.check());
  }
  coordinator::Actions join(TimePoint now, LinkId link, const link::Join& what) {
    coordinator::Actions actions;
    job.join(now, {link, "10.0.0." + std::to_string(what.pid - 99)}, what, actions);
    CHECK_FALSE(job.check());
    return actions;
  }
  coordinator::Actions hear(TimePoint now, LinkId link, const link::Message& what) {
    coordinator::Actions actions;
    job.hear(now, link, what, actions);
    CHECK_FALSE(job.check());
    return actions;
  }
  coordinator::Actions awake(TimePoint now) {
    coordinator::Actions actions;
    for (auto due = job.next_deadline(); due && *due < now; due = job.next_deadline()) {
      job.advance(*due, actions);
    }
    job.advance(now, actions);
    CHECK_FALSE(job.check());
    return actions;
  }
  Job job;
};

// With the rules that its nodes received, which each node repeats.
link::Join again(const Job& job, int rank, std::uint32_t round) {
  auto join = after(node(rank), round);
  join.restarts = job.terms().restarts;
  return join;
}

struct Sealed : Table {
  explicit Sealed(int restarts_max = 0) : Table(restarts_max) {
    join(t0, a, node(0));
    join(t0, b, node(1));
  }
};

}  // namespace

TEST_CASE("a round restarts when all of its nodes are back, and that costs no restart") {
  Sealed table;
  Next next{t0 + 60s, table.job};
  CHECK(next.job.has_lost_its_store());
  CHECK(next.job.admit("10.0.0.1").error().reason == "the store of this round was lost");
  CHECK(said<link::Drain>(next.join(t0 + 61s, new_a, again(next.job, 0, 1)), new_a).empty());
  const auto back = next.join(t0 + 62s, new_b, again(next.job, 1, 1));
  REQUIRE(said<link::Drain>(back, new_a).size() == 1);
  CHECK(said<link::Drain>(back, new_b)[0].reason ==
        "cpprund was restarted, and the store of the round was lost");
  next.hear(t0 + 63s, new_a, link::Drained{RoundNumber{1}});
  const auto sealed = next.hear(t0 + 63s, new_b, link::Drained{RoundNumber{1}});
  REQUIRE(said<link::Sealed>(sealed, new_b).size() == 1);
  CHECK(said<link::Sealed>(sealed, new_b)[0].round == RoundNumber{2});
  CHECK(said<link::Sealed>(sealed, new_b)[0].group_rank == GroupRank{1});
  CHECK(said<link::Sealed>(sealed, new_b)[0].restart_count == 0);
  CHECK(resets_store(sealed));
  CHECK_FALSE(next.job.has_lost_its_store());
  CHECK(next.job.admit("10.0.0.1"));
}

TEST_CASE("the restart budget, the history and the time accounting are kept") {
  Sealed table{2};
  table.hear(t0 + 5s, b, link::Failed{RoundNumber{1}, {.rank = Rank{2}, .status = {false, 7}}, {}});
  table.drained(t0 + 6s, 1, {a, b});
  const auto before = table.job.record();
  Next next{t0 + 60s, table.job};
  CHECK(next.job.rounds().policy().restarts_used() == 1);
  CHECK(next.job.rounds().history().list() == table.job.rounds().history().list());
  CHECK(next.job.round().number() == RoundNumber{2});
  CHECK(sum_of(next.job.rounds().time().told(t0 + 60s).nodes) ==
        sum_of(table.job.rounds().time().told(t0 + 60s).nodes));
  const auto kept = next.job.record();
  CHECK(kept.nodes == before.nodes);
  CHECK(kept.restarts == before.restarts);
  CHECK(kept.round_end == before.round_end);
}

TEST_CASE("a failure that follows the loss of the store is attributed to it and costs no restart") {
  Sealed table{1};
  Next next{t0 + 60s, table.job};
  next.join(t0 + 61s, new_a, again(next.job, 0, 1));
  const link::Failed failed{RoundNumber{1}, {.rank = Rank{0}, .status = {false, 1}}, {}};
  const auto broken = next.hear(t0 + 61s, new_a, failed);
  REQUIRE(said<link::Drain>(broken, new_a).size() == 1);
  next.hear(t0 + 62s, new_a, link::Drained{RoundNumber{1}});
  next.join(t0 + 62s, new_b, again(next.job, 1, 1));
  const auto sealed = next.hear(t0 + 63s, new_b, link::Drained{RoundNumber{1}});
  REQUIRE(said<link::Sealed>(sealed, new_a).size() == 1);
  CHECK(said<link::Sealed>(sealed, new_a)[0].restart_count == 0);
}

TEST_CASE("a node that is not back within the lease is lost") {
  Sealed table{1};
  Next next{t0 + 60s, table.job};
  next.join(t0 + 61s, new_a, again(next.job, 0, 1));
  for (int second = 61; second < 63; ++second) {
    next.hear(t0 + std::chrono::seconds(second), new_a, link::Heartbeat{});
  }
  const auto lost = next.awake(t0 + 63s);
  REQUIRE(said<link::Drain>(lost, new_a).size() == 1);
  CHECK(said<link::Drain>(lost, new_a)[0].reason == "node 1 on host1 is lost");
}

TEST_CASE("a node that had finished says so in its first message and does not repeat its work") {
  Sealed table;
  table.hear(t0 + 5s, a, link::Succeeded{RoundNumber{1}});
  Next next{t0 + 60s, table.job};
  auto done = again(next.job, 0, 1);
  done.idle = done.done = true;
  next.join(t0 + 61s, new_a, done);
  const auto back = next.join(t0 + 61s, new_b, again(next.job, 1, 1));
  CHECK(said<link::Drain>(back, new_b).empty());
  CHECK(next.job.round().phase() == Round::Phase::sealed);
  const auto over = next.hear(t0 + 62s, new_b, link::Succeeded{RoundNumber{1}});
  REQUIRE(said<link::Finish>(over, new_a).size() == 1);
  CHECK(said<link::Finish>(over, new_a)[0].exit_code == 0);
}

TEST_CASE("with local stores the round cannot resume, and all nodes restart") {
  Table table{JobTerms{.id = "j", .nodes_min = 2, .nodes_max = 2, .store_is_local = true}};
  auto first = node(0);
  auto second = node(1);
  first.store_is_local = second.store_is_local = true;
  table.join(t0, a, first);
  table.join(t0, b, second);
  Next next{t0 + 60s, table.job};
  first.after = second.after = RoundNumber{1};
  first.idle = first.done = true;
  next.join(t0 + 61s, new_a, first);
  const auto back = next.join(t0 + 61s, new_b, second);
  CHECK(said<link::Drain>(back, new_a).size() == 1);
  CHECK(said<link::Drain>(back, new_b).size() == 1);
}

TEST_CASE("a job that was ending ends with the failure that was first") {
  Sealed table;
  table.hear(t0 + 5s, b, link::Failed{RoundNumber{1}, {.rank = Rank{2}, .status = {false, 7}}, {}});
  Next next{t0 + 6s, table.job};
  CHECK(next.job.round().phase() == Round::Phase::draining);
  const auto back = next.join(t0 + 7s, new_a, again(next.job, 0, 1));
  CHECK(said<link::Drain>(back, new_a).size() == 1);
  next.join(t0 + 7s, new_b, again(next.job, 1, 1));
  next.hear(t0 + 8s, new_a, link::Drained{RoundNumber{1}});
  const auto over = next.hear(t0 + 8s, new_b, link::Drained{RoundNumber{1}});
  REQUIRE(said<link::Finish>(over, new_a).size() == 1);
  CHECK(said<link::Finish>(over, new_a)[0].exit_code == 7);
  REQUIRE(said<link::Finish>(over, new_a)[0].root);
  CHECK(said<link::Finish>(over, new_a)[0].root->rank == Rank{2});
}

TEST_CASE("a node that missed the end of the job receives it from the next coordinator") {
  Sealed table;
  table.hear(t0 + 5s, a, link::Succeeded{RoundNumber{1}});
  table.hear(t0 + 5s, b, link::Succeeded{RoundNumber{1}});
  REQUIRE(table.job.over());
  Next next{t0 + 6s, table.job};
  auto done = again(next.job, 1, 1);
  done.idle = done.done = true;
  const auto back = next.join(t0 + 7s, new_b, done);
  REQUIRE(said<link::Finish>(back, new_b).size() == 1);
  CHECK(said<link::Finish>(back, new_b)[0].exit_code == 0);
}

TEST_CASE("after all nodes had drained, the next round starts as soon as they are back") {
  Sealed table{1};
  table.hear(t0 + 5s, b, link::Failed{RoundNumber{1}, {.rank = Rank{2}, .status = {false, 7}}, {}});
  table.close(t0 + 6s, b, true);
  table.hear(t0 + 6s, a, link::Drained{RoundNumber{1}});
  auto b_again = again(table.job, 1, 1);
  back(table, t0 + 6s, b_again, LinkId{9});
  table.close(t0 + 6s, a, true);
  table.hear(t0 + 6s, LinkId{9}, link::Drained{RoundNumber{1}});
  REQUIRE(table.job.round().phase() == Round::Phase::draining);
  Next next{t0 + 7s, table.job};
  auto idle_a = again(next.job, 0, 1);
  idle_a.idle = true;
  auto idle_b = again(next.job, 1, 1);
  idle_b.idle = true;
  CHECK(said<link::Sealed>(next.join(t0 + 8s, new_a, idle_a), new_a).empty());
  const auto sealed = next.join(t0 + 8s, new_b, idle_b);
  REQUIRE(said<link::Sealed>(sealed, new_b).size() == 1);
  CHECK(said<link::Sealed>(sealed, new_b)[0].restart_count == 1);
}

TEST_CASE("a node that has left for good is not waited for by the next coordinator") {
  Table table{0, 1, 2};
  auto stays = node(0);
  stays.host = "a";
  stays.node_rank.reset();
  stays.nodes_min = 1;
  stays.nodes_max = 2;
  auto leaves = stays;
  leaves.host = "b";
  table.join(t0, a, stays);
  table.join(t0, b, leaves);
  table.hear(t0, b, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  const auto kept = table.job.steps();
  table.hear(t0, b, link::Drained{RoundNumber{1}});
  CHECK(table.job.steps() > kept);
  Next next(t0 + 1s, table.job);
  stays.after = RoundNumber{1};
  stays.restarts = table.job.terms().restarts;
  next.join(t0 + 1s, new_a, stays);
  const auto sealed = next.hear(t0 + 1s, new_a, link::Drained{RoundNumber{1}});
  REQUIRE(said<link::Sealed>(sealed, new_a).size() == 1);
  CHECK(said<link::Sealed>(sealed, new_a)[0].group_world_size == 1);
}

TEST_CASE("a stop of one node still ends the job under the next coordinator") {
  Sealed table;
  table.hear(t0 + 1s, b, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  table.hear(t0 + 1s, b, link::Drained{RoundNumber{1}});
  SUBCASE("it leaves before the next coordinator leads") {
    const auto kept = table.job.steps();
    table.close(t0 + 1s, b);
    CHECK(table.job.steps() > kept);
    Next next(t0 + 1s, table.job);
    auto back = again(table.job, 0, 1);
    back.idle = true;
    CHECK(said<link::Drain>(next.join(t0 + 2s, new_a, back), new_a).size() == 1);
    const auto over = next.hear(t0 + 2s, new_a, link::Drained{RoundNumber{1}});
    REQUIRE(said<link::Finish>(over, new_a).size() == 1);
    CHECK(said<link::Finish>(over, new_a)[0].exit_code == 143);
  }
  SUBCASE("its loss was not noticed") {
    Next next(t0 + 1s, table.job);
    auto back = again(table.job, 0, 1);
    back.idle = true;
    next.join(t0 + 2s, new_a, back);
    next.hear(t0 + 2s, new_a, link::Drained{RoundNumber{1}});
    next.hear(t0 + 3s, new_a, link::Heartbeat{});
    const auto over = next.awake(t0 + 4500ms);
    REQUIRE(said<link::Finish>(over, new_a).size() == 1);
    CHECK(said<link::Finish>(over, new_a)[0].exit_code == 143);
  }
}

TEST_CASE("a job that never started leaves no record, and each step of a started job changes it") {
  Table table;
  table.join(t0, a, node(0));
  CHECK(table.job.steps() == 0);
  table.join(t0, b, node(1));
  const auto sealed = table.job.steps();
  CHECK(sealed > 0);
  table.hear(t0 + 1s, a, link::Heartbeat{});
  CHECK(table.job.steps() == sealed);
  table.hear(t0 + 1s, a, link::Succeeded{RoundNumber{1}});
  CHECK(table.job.steps() == sealed);  // It repeats the message.
  table.hear(t0 + 1s, b, link::Succeeded{RoundNumber{1}});
  CHECK(table.job.steps() > sealed);
}

TEST_CASE("time since the nodes' last contact with a lost coordinator is not training") {
  Sealed before{1};
  before.job.store_asked(t0 + 1s);
  Next next(t0 + 100s, before.job);
  coordinator::Actions actions;
  next.job.lose_host(t0 + 100s, t0 + 96s, old_a, actions);
  next.awake(t0 + 110s);
  const TimeUse use = next.job.rounds().time().told(t0 + 110s);
  CHECK(of(use.nodes, Account::training) == 2 * 95s);
  CHECK(of(use.nodes, Account::detecting) == 2 * 4s);
  const auto lost = std::ranges::find(use.lost, "node_lost", &LostTime::cause);
  REQUIRE(lost != use.lost.end());
  CHECK(of(lost->time, Account::detecting) == 2 * 4s);
}

TEST_CASE("the next coordinator reports the previous coordinator's host as lost") {
  Sealed before{1};
  Next next(t0 + 60s, before.job);
  coordinator::Actions actions;
  next.job.lose_host(t0 + 60s, t0 + 56s, old_a, actions);
  next.join(t0 + 61s, new_b, again(next.job, 1, 1));
  next.hear(t0 + 61s, new_b, link::Drained{RoundNumber{1}});
  auto replacement = node(0);
  replacement.restarts = next.job.terms().restarts;
  const auto sealed = next.join(t0 + 62s, new_a, replacement);
  REQUIRE(said<link::Sealed>(sealed, new_b).size() == 1);
  const auto verdict = said<link::Sealed>(sealed, new_b)[0].failed_before;
  REQUIRE(verdict);
  CHECK(verdict->cause == link::node_lost);
  CHECK(verdict->host == "host0");
  // So does a third coordinator, which knows it only from the record.
  Next last(t0 + 70s, next.job);
  last.join(t0 + 71s, new_a, again(last.job, 0, 2));
  CHECK(last.job.rounds().history().root_of(RoundNumber{1})->host == "host0");
}

TEST_CASE("time without a coordinator is not training if the store was lost with it") {
  Sealed before;
  before.job.store_asked(t0 + 1s);
  JobRecord record = before.job.record();
  record.alive = t0 + 50s;
  Next next(t0 + 60s, record);
  next.join(t0 + 61s, new_a, again(next.job, 0, 1));
  next.join(t0 + 62s, new_b, again(next.job, 1, 1));
  next.hear(t0 + 62s, new_a, link::Drained{RoundNumber{1}});
  next.hear(t0 + 62s, new_b, link::Drained{RoundNumber{1}});
  const TimeUse use = next.job.rounds().time().told(t0 + 62s);
  CHECK(of(use.nodes, Account::detecting) == 2 * 12s);
  CHECK(of(use.nodes, Account::training) == 2 * 49s);
  const auto lost = std::ranges::find(use.lost, "store_lost", &LostTime::cause);
  REQUIRE(lost != use.lost.end());
  CHECK(of(lost->time, Account::detecting) == 2 * 12s);
}

TEST_CASE("time without a coordinator is not training if no node kept its seat") {
  Sealed before;
  before.job.store_asked(t0 + 1s);
  JobRecord record = before.job.record();
  record.alive = t0 + 50s;
  Next next(t0 + 60s, record, /*has_store=*/true);
  auto newcomer = node(0);
  newcomer.restarts = next.job.terms().restarts;
  next.join(t0 + 61s, new_a, newcomer);
  newcomer = node(1);
  newcomer.restarts = next.job.terms().restarts;
  const auto sealed = next.join(t0 + 61s, new_b, newcomer);
  REQUIRE(said<link::Sealed>(sealed, new_b).size() == 1);
  const TimeUse use = next.job.rounds().time().told(t0 + 61s);
  CHECK(of(use.nodes, Account::detecting) == 2 * 11s);
  CHECK(of(use.nodes, Account::training) == 2 * 49s);
  const auto lost = std::ranges::find(use.lost, "coordinator_lost", &LostTime::cause);
  REQUIRE(lost != use.lost.end());
  CHECK(of(lost->time, Account::detecting) == 2 * 11s);
}

TEST_CASE("a round that continues counts the time without a coordinator as training") {
  Sealed before;
  before.job.store_asked(t0 + 1s);
  JobRecord record = before.job.record();
  record.alive = t0 + 58s;
  Next next(t0 + 60s, record, /*has_store=*/true);
  next.join(t0 + 61s, new_a, again(next.job, 0, 1));
  next.join(t0 + 61s, new_b, again(next.job, 1, 1));
  next.hear(t0 + 70s, new_a, link::Succeeded{RoundNumber{1}});
  next.hear(t0 + 70s, new_b, link::Succeeded{RoundNumber{1}});
  REQUIRE(next.job.over());
  CHECK(of(next.job.rounds().time().told(t0 + 70s).nodes, Account::training) == 2 * 69s);
}

}  // namespace job_recovery_test
