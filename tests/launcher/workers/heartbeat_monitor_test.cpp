// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/heartbeat_monitor.h"

#include <doctest/doctest.h>

namespace heartbeat_monitor_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr LocalRank first{0};
constexpr LocalRank second{1};
using Silent = HeartbeatMonitor::Silent;

HeartbeatReading heartbeat(LocalRank rank, std::uint64_t count, TimePoint last) {
  return {.local_rank = rank, .beats = count, .last = last};
}

// Two workers that started at t0, and may be silent for a minute.
HeartbeatMonitor watching(HeartbeatTimeout timeout = {.fixed = 60s}) {
  HeartbeatMonitor watch(timeout);
  watch.started(t0, first);
  watch.started(t0, second);
  return watch;
}

}  // namespace

TEST_CASE("without a timeout no heartbeats are read") {
  HeartbeatMonitor watch(std::nullopt);
  watch.started(t0, first);
  CHECK_FALSE(watch.next_deadline());
  CHECK_FALSE(watch.take_due(t0 + 24h));
  CHECK_FALSE(watch.heard(t0 + 24h, {heartbeat(first, 1, t0)}));
}

TEST_CASE("the next check is when the next heartbeat is overdue, counted from the last one") {
  auto watch = watching();
  CHECK(watch.next_deadline() == t0 + 60s);
  CHECK_FALSE(watch.take_due(t0 + 59s));
  REQUIRE(watch.take_due(t0 + 60s));
  CHECK_FALSE(watch.next_deadline());
  CHECK_FALSE(
      watch.heard(t0 + 60s, {heartbeat(first, 9, t0 + 58s), heartbeat(second, 8, t0 + 55s)}));
  CHECK(watch.next_deadline() == t0 + 115s);
}

TEST_CASE("a worker that has never sent a heartbeat may be silent for ever") {
  auto watch = watching();
  for (int minute = 1; minute < 100; ++minute) {
    REQUIRE(watch.take_due(t0 + minute * 60s));
    REQUIRE_FALSE(watch.heard(t0 + minute * 60s, {}));
  }
}

TEST_CASE("a worker that keeps its process in a new round is checked from its first heartbeat on") {
  HeartbeatMonitor watch(HeartbeatTimeout{.fixed = 60s});
  watch.remained(t0 + 600s, first);
  for (int minute = 11; minute < 20; ++minute) {
    REQUIRE(watch.take_due(t0 + minute * 60s));
    // The last one is of the round before.
    REQUIRE_FALSE(watch.heard(t0 + minute * 60s, {heartbeat(first, 9, t0 + 590s)}));
    REQUIRE(watch.next_deadline() == t0 + (minute + 1) * 60s);
  }
  REQUIRE(watch.take_due(t0 + 1200s));
  CHECK_FALSE(watch.heard(t0 + 1200s, {heartbeat(first, 12, t0 + 1190s)}));
  REQUIRE(watch.take_due(t0 + 1250s));
  CHECK_FALSE(watch.heard(t0 + 1250s, {heartbeat(first, 12, t0 + 1190s)}));
  REQUIRE(watch.take_due(t0 + 1250s + beat_second_look));
  CHECK(watch.heard(t0 + 1250s + beat_second_look, {heartbeat(first, 12, t0 + 1190s)}));
}

TEST_CASE("another monitor continues with the times of steps, and learns nothing from the past") {
  HeartbeatMonitor before(HeartbeatTimeout{.automatic = true});
  before.started(t0, first);
  REQUIRE(before.take_due(t0 + 300s));
  before.heard(t0 + 300s, {heartbeat(first, 1, t0 + 100s)});
  CHECK(before.step_times() == HeartbeatMonitor::StepTimes{.first = 100s});
  HeartbeatMonitor next(HeartbeatTimeout{.automatic = true});
  next.started(t0, first);
  next.learn(before.step_times());
  CHECK(next.timeout() == 1000s);
  // Hours later.
  REQUIRE(next.take_due(t0 + 36'000s));
  CHECK_FALSE(next.heard(t0 + 36'000s, {heartbeat(first, 900, t0 + 35'990s)}));
  CHECK(next.step_times() == before.step_times());
  CHECK(next.next_deadline() == t0 + 37'000s);
}

TEST_CASE("a worker without heartbeats is checked twice before it is hung") {
  auto watch = watching();
  REQUIRE(watch.take_due(t0 + 60s));
  CHECK_FALSE(
      watch.heard(t0 + 60s, {heartbeat(first, 9, t0 + 59s), heartbeat(second, 8, t0 + 50s)}));
  REQUIRE(watch.take_due(t0 + 110s));
  CHECK_FALSE(
      watch.heard(t0 + 110s, {heartbeat(first, 50, t0 + 109s), heartbeat(second, 8, t0 + 50s)}));
  CHECK(watch.next_deadline() == t0 + 110s + beat_second_look);
  REQUIRE(watch.take_due(t0 + 110s + beat_second_look));
  const auto silent = watch.heard(t0 + 110s + beat_second_look, {heartbeat(first, 50, t0 + 109s),
                                                                 heartbeat(second, 8, t0 + 50s)});
  CHECK(silent == Silent{second, 60s + beat_second_look});
}

TEST_CASE("a worker that sends a heartbeat between the two checks is not hung") {
  auto watch = watching();
  REQUIRE(watch.take_due(t0 + 60s));
  CHECK_FALSE(watch.heard(t0 + 60s, {heartbeat(first, 1, t0)}));
  REQUIRE(watch.take_due(t0 + 60s + beat_second_look));
  CHECK_FALSE(watch.heard(t0 + 60s + beat_second_look, {heartbeat(first, 2, t0 + 60s)}));
  CHECK(watch.next_deadline() == t0 + 120s);
}

TEST_CASE("of two silent workers the first to stop is named") {
  auto watch = watching();
  const std::vector<HeartbeatReading> both = {heartbeat(first, 5, t0 + 3s),
                                              heartbeat(second, 4, t0 + 2s)};
  REQUIRE(watch.take_due(t0 + 60s));
  CHECK_FALSE(watch.heard(t0 + 60s, both));
  REQUIRE(watch.take_due(t0 + 64s));  // late: suspended, so all workers get the full timeout
  CHECK_FALSE(watch.heard(t0 + 64s, both));
  CHECK(watch.next_deadline() == t0 + 124s);
  REQUIRE(watch.take_due(t0 + 124s));
  CHECK_FALSE(watch.heard(t0 + 124s, both));
  REQUIRE(watch.take_due(t0 + 124s + beat_second_look));
  const auto silent = watch.heard(t0 + 124s + beat_second_look, both);
  REQUIRE(silent);
  CHECK(silent->local_rank == first);  // both are silent since then: the lower rank
  auto other = watching({.fixed = 10s});
  REQUIRE(other.take_due(t0 + 10s));
  CHECK_FALSE(other.heard(t0 + 10s, both));
  REQUIRE(other.take_due(t0 + 12s));
  CHECK_FALSE(other.heard(t0 + 12s, both));
  REQUIRE(other.take_due(t0 + 12s + beat_second_look));
  // By now the second worker is overdue for two checks, the first one for one.
  CHECK(other.heard(t0 + 13s, both) == Silent{second, 11s});
}

TEST_CASE("impossible heartbeat times are ignored") {
  auto watch = watching();
  REQUIRE(watch.take_due(t0 + 60s));
  // A heartbeat from tomorrow, and one from before the worker started.
  CHECK_FALSE(
      watch.heard(t0 + 60s, {heartbeat(first, 1, t0 + 24h), heartbeat(second, 1, t0 - 24h)}));
  CHECK(watch.next_deadline() == t0 + 60s + beat_second_look);
  REQUIRE(watch.take_due(t0 + 60s + beat_second_look));
  const auto silent = watch.heard(t0 + 60s + beat_second_look,
                                  {heartbeat(first, 1, t0 + 24h), heartbeat(second, 1, t0 - 24h)});
  CHECK(silent == Silent{second, 60s + beat_second_look});
}

TEST_CASE("after one worker hung the others are read on") {
  auto watch = watching();
  const std::vector<HeartbeatReading> readings = {heartbeat(first, 9, t0 + 59s),
                                                  heartbeat(second, 1, t0)};
  REQUIRE(watch.take_due(t0 + 60s));
  CHECK_FALSE(watch.heard(t0 + 60s, readings));
  REQUIRE(watch.take_due(t0 + 60s + beat_second_look));
  CHECK(watch.heard(t0 + 60s + beat_second_look, readings) ==
        Silent{second, 60s + beat_second_look});
  watch.ended(second);
  REQUIRE(watch.next_deadline());
  CHECK(watch.take_due(*watch.next_deadline()));
  CHECK_FALSE(watch.heard(t0 + 61s, readings));
  CHECK(watch.next_deadline() == t0 + 119s);
}

TEST_CASE("a worker that starts later says nothing about the steps of the others") {
  auto watch = watching({.automatic = true});
  watch.ended(second);
  // One heartbeat a second.
  const auto look = [&](TimePoint now) {
    const auto beats = static_cast<std::uint64_t>((now - t0) / 1s) - 1;
    REQUIRE(watch.take_due(now));
    CHECK_FALSE(watch.heard(now, {heartbeat(first, beats, now - 1s)}));
  };
  look(t0 + 300s);
  look(*watch.next_deadline());
  REQUIRE(watch.timeout() == beat_timeout_least);
  const TimePoint next = *watch.next_deadline();
  watch.started(next - 10s, second);
  look(next);
  CHECK(watch.timeout() == beat_timeout_least);
}

TEST_CASE("workers that have ended are not watched, and none is while all are being stopped") {
  auto watch = watching();
  watch.ended(first);
  CHECK(watch.next_deadline() == t0 + 60s);
  watch.ended(second);
  CHECK_FALSE(watch.next_deadline());
  auto other = watching();
  other.stop();
  CHECK_FALSE(other.next_deadline());
}

TEST_CASE("auto takes several times the slowest step, and no less than its minimum") {
  auto watch = watching({.automatic = true});
  CHECK(watch.timeout() == beat_timeout_least);
  REQUIRE(watch.take_due(t0 + beat_timeout_least));
  // The first heartbeat came after a minute: the only measurement so far.
  CHECK_FALSE(
      watch.heard(t0 + 300s, {heartbeat(first, 1, t0 + 60s), heartbeat(second, 1, t0 + 290s)}));
  CHECK(watch.timeout() == beat_timeout_steps * 290s);
  // Ten steps in 500 s; the first of them took as long as had passed at the previous check.
  REQUIRE(watch.take_due(*watch.next_deadline()));
  const TimePoint then = t0 + 60s + beat_timeout_steps * 290s;
  CHECK_FALSE(
      watch.heard(then, {heartbeat(first, 11, t0 + 560s), heartbeat(second, 2, t0 + 300s)}));
  CHECK(watch.timeout() == beat_timeout_steps * 240s);
}

TEST_CASE("a node's progress is that of its fastest worker") {
  CHECK(reached_of({}) == link::Reached{});
  std::vector<HeartbeatReading> readings = {heartbeat(first, 1, t0), heartbeat(second, 1, t0)};
  readings[0].step = 12;
  readings[1].step = 11;
  readings[1].checkpoint_step = 10;
  CHECK(reached_of(readings) == link::Reached{12, 10});
}

TEST_CASE("unsaved time is counted from the oldest checkpoint that a worker reports") {
  CHECK(unsaved_of({}) == 0s);
  std::vector<HeartbeatReading> readings = {heartbeat(first, 1, t0), heartbeat(second, 1, t0)};
  CHECK(unsaved_of(readings) == 0s);
  readings[0].since_checkpoint = 20s;
  readings[1].since_checkpoint = 75s;
  CHECK(unsaved_of(readings) == 75s);
}

}  // namespace heartbeat_monitor_test
