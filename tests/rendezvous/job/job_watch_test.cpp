// SPDX-License-Identifier: BSD-3-Clause
// What nodes ask of their workers while a client watches the job, and how the answers are used.

#include <doctest/doctest.h>

#include "rendezvous/job/round.h"
#include "tests/rendezvous/job/job_table.h"

namespace job_watch_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

coordinator::Actions look(Table& table, TimePoint now) {
  coordinator::Actions actions;
  table.job.look(now, actions);
  CHECK_FALSE(table.job.check());
  return actions;
}

// How long the answer to a heartbeat asks that node to report every change.
Duration asked(Table& table, TimePoint now, LinkId link) {
  const auto answers = said<link::Heartbeat>(table.hear(now, link, link::Heartbeat{}), link);
  REQUIRE(answers.size() == 1);
  return answers.front().watch;
}

link::Status of(std::uint32_t round, std::vector<int> local_ranks, std::int64_t step) {
  link::Status status{.round = RoundNumber{round}};
  for (const int local : local_ranks) {
    status.workers.push_back({.local_rank = LocalRank{local}, .pid = 7, .step = step});
  }
  return status;
}

const NodeStats& figures(const Table& table, LinkId link) {
  return table.job.round().find(link)->figures;
}

}  // namespace

TEST_CASE(
    "without a watching client no node is asked, and an agent's own request is not repeated") {
  Table table;
  table.seal();
  for (int second = 1; second < 20; ++second) {
    const auto said_back =
        said<link::Heartbeat>(table.hear(t0 + second * 1s, b, link::Heartbeat{.watch = 10s}), b);
    REQUIRE(said_back.size() == 1);
    CHECK(said_back.front().watch == 0s);
  }
}

TEST_CASE(
    "a watching client has nodes asked at their heartbeats, every two seconds, for ten seconds") {
  Table table;
  table.seal();
  CHECK(said<link::Heartbeat>(look(table, t0 + 1s), b).empty());
  CHECK(asked(table, t0 + 1s, b) > 0s);
  CHECK(asked(table, t0 + 2s, b) == 0s);
  CHECK(asked(table, t0 + 3s, b) > 0s);
  CHECK(asked(table, t0 + 10s, b) > 0s);
  CHECK(asked(table, t0 + 12s, b) == 0s);
}

TEST_CASE("the agent in the coordinator's process, which sends no heartbeats, is asked at once") {
  Table table;
  table.seal();
  const auto first_look = said<link::Heartbeat>(look(table, t0 + 1s), a);
  REQUIRE(first_look.size() == 1);
  CHECK(first_look.front().watch > 0s);
  CHECK(said<link::Heartbeat>(look(table, t0 + 2s), a).empty());
  CHECK(said<link::Heartbeat>(look(table, t0 + 3s), a).size() == 1);
}

TEST_CASE("no node is asked before a round runs") {
  Table table;
  table.join(t0, a, node(0), true);
  CHECK(said<link::Heartbeat>(look(table, t0), a).empty());
}

TEST_CASE("statistics are kept per worker, and only for workers that the node has") {
  Table table;
  table.seal();
  table.hear(t0 + 1s, b, of(1, {0, 1}, 5));
  table.hear(t0 + 2s, b, of(1, {1, 2, 2047}, 6));
  const auto& workers = figures(table, b).workers;
  REQUIRE(workers.size() == 2);
  CHECK(workers[0].figures.step == 5);
  CHECK(workers[0].at == t0 + 1s);
  CHECK(workers[1].figures.step == 6);
  CHECK(workers[1].at == t0 + 2s);
  CHECK(figures(table, a).workers.empty());
}

TEST_CASE("statistics of another round are dropped, and a new round starts without any") {
  Table table(/*restarts_max=*/1);
  table.seal();
  table.hear(t0, b, of(7, {0}, 5));
  CHECK(figures(table, b).workers.empty());
  table.hear(t0, b, of(1, {0}, 5));
  CHECK(figures(table, b).workers.size() == 1);
  table.hear(t0 + 1s, b,
             link::Failed{.round = RoundNumber{1},
                          .failure = {.rank = Rank{2}, .host = "host1", .status = {false, 3}}});
  table.drained(t0 + 2s, 1, {a, b});
  REQUIRE(table.job.round().number() == RoundNumber{2});
  CHECK(figures(table, b).workers.empty());
  CHECK_FALSE(figures(table, b).asked);
}

}  // namespace job_watch_test
