// SPDX-License-Identifier: BSD-3-Clause
// The state of a job's nodes when something happens to it, and the account their time is booked to.

#include <doctest/doctest.h>

#include "rendezvous/job/job.h"
#include "tests/rendezvous/job/job_table.h"

namespace job_time_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

NodeDuration booked(const Table& table, TimePoint now, Account account) {
  return of(table.job.rounds().time().told(now).nodes, account);
}

}  // namespace

TEST_CASE("a job waits for its nodes, starts, trains, fails, and restarts") {
  Table table{1};
  table.join(t0, a, node(0), true);
  table.join(t0 + 4s, b, node(1));
  CHECK(booked(table, t0 + 4s, Account::waiting_for_nodes) == 4s);
  table.hear(t0 + 6s, b, link::Heartbeat{});
  table.job.store_asked(t0 + 6s);
  CHECK(booked(table, t0 + 6s, Account::starting) == 4s);
  // Rank 2 ends at 8 s, and its node reports it a second later.
  const link::Failed failed{.round = RoundNumber{1},
                            .failure = {.rank = Rank{0},
                                        .host = "host0",
                                        .status = {.signalled = false, .value = 1},
                                        .cause = "out_of_memory"},
                            .noticed = std::chrono::duration_cast<link::AgentTime>(8s)};
  table.hear(t0 + 9s, a, failed);
  CHECK(booked(table, t0 + 9s, Account::training) == 6s);
  table.drained(t0 + 10s, 1, {b});
  table.drained(t0 + 11s, 1, {a});
  CHECK(booked(table, t0 + 11s, Account::training) == 4s);
  CHECK(booked(table, t0 + 11s, Account::detecting) == 2s);
  CHECK(booked(table, t0 + 11s, Account::draining) == 4s);
  REQUIRE(table.job.round().phase() == Round::Phase::sealed);
  table.job.store_asked(t0 + 12s);
  const TimeUse use = table.job.rounds().time().told(t0 + 12s);
  CHECK(sum_of(use.nodes) == 4s + 2 * 8s);
  CHECK(use.wall == 12s);
  REQUIRE(use.lost.size() == 2);
  CHECK(use.lost[1].cause == "out_of_memory");
  CHECK(use.lost[1].host == "host0");
  CHECK(sum_of(use.lost[1].time) == 2s + 4s + 2s);
}

TEST_CASE("the end of a job reports what its time was spent on") {
  Table table;
  table.seal();
  table.job.store_asked(t0 + 1s);
  table.hear(t0 + 5s, b, link::Succeeded{RoundNumber{1}});
  table.hear(t0 + 7s, a, link::Succeeded{RoundNumber{1}});
  REQUIRE(table.job.finish());
  REQUIRE(table.job.finish()->time);
  const TimeUse& use = *table.job.finish()->time;
  CHECK(of(use.nodes, Account::standing_by) == 2s);
  CHECK(sum_of(use.nodes) == sum_of(table.job.rounds().time().told(t0 + 60s).nodes));
}

TEST_CASE("unsaved work of a node is counted as redone, however often the node reports it") {
  Table table{1};
  table.seal();
  table.job.store_asked(t0);
  const link::Failed failed{
      .round = RoundNumber{1},
      .failure = {.rank = Rank{0}, .host = "host0", .status = {.signalled = false, .value = 1}},
      .noticed = std::chrono::duration_cast<link::AgentTime>(10s)};
  table.hear(t0 + 10s, a, failed);
  const link::Drained drained{.round = RoundNumber{1}, .unsaved = 4s};
  table.hear(t0 + 10s, a, drained);
  table.hear(t0 + 10s, a, drained);
  table.hear(t0 + 10s, b, link::Drained{.round = RoundNumber{1}, .unsaved = 3s});
  CHECK(booked(table, t0 + 10s, Account::redoing) == 7s);
  CHECK(booked(table, t0 + 10s, Account::training) == 13s);
}

TEST_CASE("a worker that sends heartbeats and never uses the store has trained") {
  const auto training_of = [](link::Reached reached) {
    Table table{1};
    table.seal();
    table.hear(
        t0 + 10s, b,
        link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{3}, .status = {false, 1}}});
    table.hear(t0 + 10s, a, link::Drained{.round = RoundNumber{1}, .reached = reached});
    table.hear(t0 + 10s, b, link::Drained{.round = RoundNumber{1}});
    return booked(table, t0 + 10s, Account::training);
  };
  CHECK(training_of({}) == 0s);
  CHECK(training_of({.step = 7}) == 20s);
}

TEST_CASE("time lost to a command is booked to the command, not to a membership change") {
  Table table{1};
  table.seal();
  table.command(t0 + 5s, {.kind = OperatorCommand::Kind::restart});
  table.drained(t0 + 8s, 1, {a, b});
  const TimeUse use = table.job.rounds().time().told(t0 + 8s);
  const auto command = std::ranges::find(use.lost, "order", &LostTime::cause);
  REQUIRE(command != use.lost.end());
  CHECK(of(command->time, Account::draining) == 6s);
}

}  // namespace job_time_test
