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

TEST_CASE("progress is the extremes of all workers, and who is behind") {
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
  CHECK(progress.beat_age_max == 11s);  // two seconds have passed since it was told
  CHECK(progress.resident_kib_max == 51 * 1024);
  CHECK(progress.told_ago_max == 3s);
  REQUIRE(progress.slowest.size() == 4);
  CHECK(progress.slowest[0].worker.rank == Rank{3});
  CHECK(progress.slowest[0].host == "host1");
  CHECK(progress.slowest[1].worker.rank == Rank{1});
  CHECK(progress.slowest[3].worker.rank == Rank{2});
}

TEST_CASE("a worker that has ended holds nobody up") {
  Table table;
  table.seal();
  link::WorkerStats done = at_step(0, 3);
  done.state = WorkerState::succeeded;
  table.hear(t0, b, link::Status{RoundNumber{1}, {done, at_step(1, 50)}});
  const auto progress = progress_of(table.job, t0);
  CHECK(progress.workers == 1);
  CHECK(progress.step_min == 50);
}

TEST_CASE("ages grow from when they were told") {
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

TEST_CASE("only a few are shown of those that are behind") {
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
