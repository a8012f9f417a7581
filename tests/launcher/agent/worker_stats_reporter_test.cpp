// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/local_workers.h"

#include <doctest/doctest.h>

#include "proto/link/codec.h"
#include "proto/link/message.h"

namespace worker_stats_reporter_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr RoundNumber round_one{1};

std::vector<WorkerView> running(int count) {
  std::vector<WorkerView> views;
  for (int local = 0; local < count; ++local) {
    views.push_back({LocalRank{local}, 100 + local, WorkerState::running, t0});
  }
  return views;
}

WorkerSight at_step(int local_rank, std::uint64_t step, TimePoint last) {
  return {.local_rank = LocalRank{local_rank},
          .beat = HeartbeatReading{.local_rank = LocalRank{local_rank},
                                   .beats = step,
                                   .last = last,
                                   .step = step,
                                   .samples = 64 * step,
                                   .checkpoint_step = 10},
          .resident_kib = 2048,
          .cpu = 5s,
          .last_words = 7s};
}

}  // namespace

TEST_CASE("workers are sampled only while a client watches the job") {
  WorkerStatsReporter figures;
  CHECK_FALSE(figures.changed(t0 + 1s));
  CHECK(figures.watch(t0 + 1s, 10s));
  CHECK_FALSE(figures.watch(t0 + 1s, 10s));  // that sample is still pending
  CHECK_FALSE(figures.changed(t0 + 1s));
  figures.nothing_seen();
  CHECK(figures.changed(t0 + 10s));
  figures.nothing_seen();
  CHECK_FALSE(figures.changed(t0 + 11s));
}

TEST_CASE("the state of a worker is reported, and a rate from the second sample on") {
  WorkerStatsReporter figures;
  auto status = figures.tell(t0 + 10s, round_one, running(1), {at_step(0, 20, t0 + 9s)});
  REQUIRE(status.workers.size() == 1);
  const auto& worker = status.workers.front();
  CHECK(status.round == round_one);
  CHECK(worker.pid == 100);
  CHECK(worker.state == WorkerState::running);
  CHECK(worker.since == 10s);
  CHECK(worker.step == 20);
  CHECK(worker.samples == 1280);
  CHECK(worker.checkpoint_step == 10);
  CHECK(worker.last_beat == 1s);
  CHECK(worker.resident_kib == 2048);
  CHECK(worker.cpu_percent == 50);
  CHECK(worker.last_words == 7s);
  CHECK_FALSE(worker.millisteps_per_second);
  auto later = at_step(0, 30, t0 + 13s);
  later.cpu = 9s;
  status = figures.tell(t0 + 14s, round_one, running(1), {later});
  CHECK(status.workers.front().millisteps_per_second == 2500);  // ten steps in four seconds
  CHECK(status.workers.front().cpu_percent == 100);
  // No progress: fewer than one step in that time.
  status = figures.tell(t0 + 23s, round_one, running(1), {later});
  CHECK(status.workers.front().millisteps_per_second == 100);
}

TEST_CASE("a worker without a heartbeat is reported without steps") {
  WorkerStatsReporter figures;
  const auto status = figures.tell(t0 + 1s, round_one, running(2), {});
  REQUIRE(status.workers.size() == 2);
  CHECK_FALSE(status.workers[1].step);
  CHECK_FALSE(status.workers[1].last_beat);
  CHECK_FALSE(status.workers[1].resident_kib);
}

TEST_CASE("the total and the metrics are reported for the first worker that has them") {
  WorkerStatsReporter figures;
  std::vector<WorkerSight> sights;
  for (int local = 0; local < 3; ++local) {
    sights.push_back(at_step(local, 5, t0 + 1s));
    if (local > 0) sights.back().beat->total = 100;
    if (local > 0) sights.back().beat->metrics = {{"loss", local}};
  }
  const auto status = figures.tell(t0 + 1s, round_one, running(3), sights);
  REQUIRE(status.workers.size() == 3);
  CHECK_FALSE(status.workers[0].total);
  CHECK(status.workers[1].total == 100);
  CHECK(status.workers[1].metrics == std::vector<link::Metric>{{"loss", 1.0}});
  CHECK_FALSE(status.workers[2].total);
  CHECK(status.workers[2].metrics.empty());
}

TEST_CASE("workers of a large node take turns within a frame, and none is starved") {
  WorkerStatsReporter figures;
  const auto views = running(40);
  std::vector<int> reports(40, 0);
  for (int look = 0; look < 10; ++look) {
    std::vector<WorkerSight> sights;
    for (int i = 0; i < 40; ++i) sights.push_back(at_step(i, 1'000'000 + 977 * i, t0 + 1s));
    const auto status = figures.tell(t0 + 2s * look, round_one, views, sights);
    CHECK(link::encode(status).size() <= link::status_frame_bytes_max);
    CHECK(status.workers.size() >= 4);
    for (const auto& each : status.workers)
      ++reports[static_cast<std::size_t>(each.local_rank.value)];
  }
  CHECK(std::ranges::min(reports) >= 1);
  CHECK(std::ranges::max(reports) - std::ranges::min(reports) <= 1);
}

TEST_CASE("workers whose state has changed come first") {
  WorkerStatsReporter figures;
  auto views = running(40);
  const std::vector<WorkerSight> none;
  for (int look = 0; look < 5; ++look) figures.tell(t0 + 2s * look, round_one, views, none);
  views[39].state = WorkerState::failed;
  views[7].state = WorkerState::ending;
  const auto status = figures.tell(t0 + 11s, round_one, views, none);
  const auto state_of = [&](int local) {
    const auto found =
        std::ranges::find(status.workers, LocalRank{local}, &link::WorkerStats::local_rank);
    return found == status.workers.end() ? WorkerState::starting : found->state;
  };
  CHECK(state_of(39) == WorkerState::failed);
  CHECK(state_of(7) == WorkerState::ending);
}

}  // namespace worker_stats_reporter_test
