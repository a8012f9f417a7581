// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/snapshot.h"

#include <doctest/doctest.h>

#include "tests/rendezvous/job/job_table.h"

namespace progress_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

link::WorkerStats at_step(int local_rank, std::int64_t step) {
  return {.local_rank = LocalRank{local_rank},
          .pid = 100 + local_rank,
          .state = WorkerState::running,
          .since = 60s,
          .step = step,
          .millisteps_per_second = 2000 - step,
          .checkpoint_step = 40,
          .last_beat = 500ms,
          .resident_kib = 1024 * step};
}

}  // namespace

TEST_CASE("a job whose nodes were never asked has no progress to show") {
  Table table;
  table.seal();
  const auto progress = progress_of(table.job, t0);
  CHECK(progress.workers == 0);
  CHECK_FALSE(progress.step_min);
  CHECK(progress.slowest.empty());
}

TEST_CASE("progress has the extremes of all workers, and the slow ones") {
  Table table;
  table.seal();
  table.hear(t0 + 1s, a, link::Status{RoundNumber{1}, {at_step(0, 50), at_step(1, 47)}});
  link::WorkerStats silent = at_step(1, 47);
  silent.last_beat = 9s;
  table.hear(t0 + 2s, b, link::Status{RoundNumber{1}, {at_step(0, 51), silent}});
  const auto progress = progress_of(table.job, t0 + 4s);
  CHECK(progress.workers == 4);
  CHECK(progress.beating == 4);
  CHECK(progress.step_min == 47);
  CHECK(progress.step_max == 51);
  CHECK(progress.checkpoint_step == 40);
  CHECK(progress.millisteps_per_second_min == 1949);
  CHECK(progress.beat_age_max == 11s);  // two seconds have passed since the report
  CHECK(progress.resident_kib_max == 51 * 1024);
  CHECK(progress.told_ago_max == 3s);
  REQUIRE(progress.slowest.size() == 4);
  CHECK(progress.slowest[0].worker.rank == Rank{3});
  CHECK(progress.slowest[0].host == "host1");
  CHECK(progress.slowest[1].worker.rank == Rank{1});
  CHECK(progress.slowest[3].worker.rank == Rank{2});
}

TEST_CASE("the time left is that of the slowest worker with a known total and speed") {
  Table table;
  table.seal();
  link::WorkerStats slow = at_step(0, 500);
  slow.total = 2000;
  slow.millisteps_per_second = 500;
  link::WorkerStats fast = at_step(1, 501);
  fast.total = 1999;
  fast.millisteps_per_second = 750;
  table.hear(t0, a, link::Status{RoundNumber{1}, {slow, fast}});
  auto progress = progress_of(table.job, t0);
  CHECK(progress.total == 2000);
  CHECK(progress.remaining == 3000s);
  slow.total = fast.total = 400;  // beyond its total
  table.hear(t0, a, link::Status{RoundNumber{1}, {slow, fast}});
  CHECK(progress_of(table.job, t0).remaining == 0s);
  slow.millisteps_per_second = 0;
  table.hear(t0, a, link::Status{RoundNumber{1}, {slow, fast}});
  CHECK_FALSE(progress_of(table.job, t0).remaining);
}

TEST_CASE("a metric is taken from the lowest rank that reports it, and at most 32 are shown") {
  Table table;
  table.seal();
  link::WorkerStats second = at_step(1, 7);
  second.metrics = {{"loss", 0.5}, {"lr", {}}};
  link::WorkerStats third = at_step(0, 7);
  third.metrics = {{"loss", 0.7}, {"accuracy", 0.9}};
  table.hear(t0, b, link::Status{RoundNumber{1}, {third}});
  table.hear(t0, a, link::Status{RoundNumber{1}, {second}});
  const auto metrics = progress_of(table.job, t0).metrics;
  REQUIRE(metrics.size() == 3);
  CHECK(metrics[0].metric == link::Metric{"accuracy", 0.9});
  CHECK(metrics[0].rank == Rank{2});
  CHECK(metrics[1].metric == link::Metric{"loss", 0.5});
  CHECK(metrics[1].rank == Rank{1});
  CHECK(metrics[2].metric == link::Metric{"lr", {}});
  link::WorkerStats wild = at_step(0, 7);
  for (int more = 0; more < 100; ++more) wild.metrics.push_back({"m" + std::to_string(more), 1.0});
  table.hear(t0, a, link::Status{RoundNumber{1}, {wild}});
  CHECK(progress_of(table.job, t0).metrics.size() == 32);
}

TEST_CASE("a worker that has ended does not count as slow") {
  Table table;
  table.seal();
  link::WorkerStats done = at_step(0, 3);
  done.state = WorkerState::succeeded;
  table.hear(t0, b, link::Status{RoundNumber{1}, {done, at_step(1, 50)}});
  const auto progress = progress_of(table.job, t0);
  CHECK(progress.workers == 1);
  CHECK(progress.step_min == 50);
}

TEST_CASE("ages count from the time of the report") {
  Table table;
  table.seal();
  link::WorkerStats figures = at_step(0, 3);
  figures.last_words = 1s;
  table.hear(t0, b, link::Status{RoundNumber{1}, {figures}});
  const auto workers = workers_of(*table.job.round().find(b), t0 + 5s);
  REQUIRE(workers.size() == 1);
  CHECK(workers[0].rank == Rank{2});
  CHECK(workers[0].figures.since == 65s);
  CHECK(workers[0].figures.last_beat == 5500ms);
  CHECK(workers[0].figures.last_words == 6s);
}

TEST_CASE("only a few of the slow workers are shown") {
  Table table(0, 2, 2);
  table.join(t0, a, node(0, 8), true);
  table.join(t0, b, node(1, 8));
  link::Status status{.round = RoundNumber{1}};
  for (int local = 0; local < 8; ++local) status.workers.push_back(at_step(local, 50 - local));
  table.hear(t0, b, status);
  const auto progress = progress_of(table.job, t0);
  CHECK(progress.slowest.size() == 5);
  CHECK(progress.slowest.front().worker.figures.step == 43);
}

}  // namespace progress_test
