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

HeartbeatReading beat(LocalRank rank, std::uint64_t beats, TimePoint last) {
  return {.local_rank = rank, .beats = beats, .last = last};
}

// Two workers that started at t0, and may be silent for a minute.
HeartbeatMonitor watching(HeartbeatTimeout timeout = {.fixed = 60s}) {
  HeartbeatMonitor watch(timeout);
  watch.started(t0, first);
  watch.started(t0, second);
  return watch;
}

}  // namespace

TEST_CASE("where nobody is watched nobody is looked at") {
  HeartbeatMonitor watch(std::nullopt);
  watch.started(t0, first);
  CHECK_FALSE(watch.next_deadline());
  CHECK_FALSE(watch.take_due(t0 + 24h));
  CHECK_FALSE(watch.heard(t0 + 24h, {beat(first, 1, t0)}));
}

TEST_CASE("the next look is when the next beat is overdue, counted from the last") {
  auto watch = watching();
  CHECK(watch.next_deadline() == t0 + 60s);
  CHECK_FALSE(watch.take_due(t0 + 59s));
  REQUIRE(watch.take_due(t0 + 60s));
  CHECK_FALSE(watch.next_deadline());
  CHECK_FALSE(watch.heard(t0 + 60s, {beat(first, 9, t0 + 58s), beat(second, 8, t0 + 55s)}));
  CHECK(watch.next_deadline() == t0 + 115s);
}

TEST_CASE("a worker that has never beaten may be silent for ever") {
  auto watch = watching();
  for (int minute = 1; minute < 100; ++minute) {
    REQUIRE(watch.take_due(t0 + minute * 60s));
    REQUIRE_FALSE(watch.heard(t0 + minute * 60s, {}));
  }
}

TEST_CASE("a worker that stops beating is looked at twice before it is hung") {
  auto watch = watching();
  REQUIRE(watch.take_due(t0 + 60s));
  CHECK_FALSE(watch.heard(t0 + 60s, {beat(first, 9, t0 + 59s), beat(second, 8, t0 + 50s)}));
  REQUIRE(watch.take_due(t0 + 110s));
  CHECK_FALSE(watch.heard(t0 + 110s, {beat(first, 50, t0 + 109s), beat(second, 8, t0 + 50s)}));
  CHECK(watch.next_deadline() == t0 + 110s + beat_second_look);
  REQUIRE(watch.take_due(t0 + 110s + beat_second_look));
  const auto silent = watch.heard(t0 + 110s + beat_second_look,
                                  {beat(first, 50, t0 + 109s), beat(second, 8, t0 + 50s)});
  CHECK(silent == Silent{second, 60s + beat_second_look});
}

TEST_CASE("whoever beats between the two looks is not hung") {
  auto watch = watching();
  REQUIRE(watch.take_due(t0 + 60s));
  CHECK_FALSE(watch.heard(t0 + 60s, {beat(first, 1, t0)}));
  REQUIRE(watch.take_due(t0 + 60s + beat_second_look));
  CHECK_FALSE(watch.heard(t0 + 60s + beat_second_look, {beat(first, 2, t0 + 60s)}));
  CHECK(watch.next_deadline() == t0 + 120s);
}

TEST_CASE("of two that are silent the one that stopped first is named") {
  auto watch = watching();
  const std::vector<HeartbeatReading> both = {beat(first, 5, t0 + 3s), beat(second, 4, t0 + 2s)};
  REQUIRE(watch.take_due(t0 + 60s));
  CHECK_FALSE(watch.heard(t0 + 60s, both));
  REQUIRE(watch.take_due(t0 + 64s));  // late: it slept, and everybody has the whole time again
  CHECK_FALSE(watch.heard(t0 + 64s, both));
  CHECK(watch.next_deadline() == t0 + 124s);
  REQUIRE(watch.take_due(t0 + 124s));
  CHECK_FALSE(watch.heard(t0 + 124s, both));
  REQUIRE(watch.take_due(t0 + 124s + beat_second_look));
  const auto silent = watch.heard(t0 + 124s + beat_second_look, both);
  REQUIRE(silent);
  CHECK(silent->local_rank == first);  // both since the sleep: the lower one
  auto other = watching({.fixed = 10s});
  REQUIRE(other.take_due(t0 + 10s));
  CHECK_FALSE(other.heard(t0 + 10s, both));
  REQUIRE(other.take_due(t0 + 12s));
  CHECK_FALSE(other.heard(t0 + 12s, both));
  REQUIRE(other.take_due(t0 + 12s + beat_second_look));
  // By now the second is overdue for two looks, the first for one.
  CHECK(other.heard(t0 + 13s, both) == Silent{second, 11s});
}

TEST_CASE("times that cannot be are not believed") {
  auto watch = watching();
  REQUIRE(watch.take_due(t0 + 60s));
  // A beat of tomorrow, and one of before the worker was there.
  CHECK_FALSE(watch.heard(t0 + 60s, {beat(first, 1, t0 + 24h), beat(second, 1, t0 - 24h)}));
  CHECK(watch.next_deadline() == t0 + 60s + beat_second_look);
  REQUIRE(watch.take_due(t0 + 60s + beat_second_look));
  const auto silent = watch.heard(t0 + 60s + beat_second_look,
                                  {beat(first, 1, t0 + 24h), beat(second, 1, t0 - 24h)});
  CHECK(silent == Silent{second, 60s + beat_second_look});
}

TEST_CASE("who has ended is not watched, and nobody is when everybody is being ended") {
  auto watch = watching();
  watch.ended(first);
  CHECK(watch.next_deadline() == t0 + 60s);
  watch.ended(second);
  CHECK_FALSE(watch.next_deadline());
  auto other = watching();
  other.stop();
  CHECK_FALSE(other.next_deadline());
}

TEST_CASE("auto takes several times the slowest step seen, and no less than its least") {
  auto watch = watching({.automatic = true});
  CHECK(watch.timeout() == beat_timeout_least);
  REQUIRE(watch.take_due(t0 + beat_timeout_least));
  // The first beat came after a minute: the only measure there is.
  CHECK_FALSE(watch.heard(t0 + 300s, {beat(first, 1, t0 + 60s), beat(second, 1, t0 + 290s)}));
  CHECK(watch.timeout() == beat_timeout_steps * 290s);
  // Ten steps in 500 s; and the first of them took as long as had passed at the look before.
  REQUIRE(watch.take_due(*watch.next_deadline()));
  const TimePoint then = t0 + 60s + beat_timeout_steps * 290s;
  CHECK_FALSE(watch.heard(then, {beat(first, 11, t0 + 560s), beat(second, 2, t0 + 300s)}));
  CHECK(watch.timeout() == beat_timeout_steps * 240s);
}

TEST_CASE("a node has come as far as the farthest of its workers") {
  CHECK(reached_of({}) == link::Reached{});
  std::vector<HeartbeatReading> readings = {beat(first, 1, t0), beat(second, 1, t0)};
  readings[0].step = 12;
  readings[1].step = 11;
  readings[1].checkpoint_step = 10;
  CHECK(reached_of(readings) == link::Reached{12, 10});
}

TEST_CASE("what was not saved is counted from the oldest checkpoint anybody tells of") {
  CHECK(unsaved_of({}) == 0s);
  std::vector<HeartbeatReading> readings = {beat(first, 1, t0), beat(second, 1, t0)};
  CHECK(unsaved_of(readings) == 0s);
  readings[0].since_checkpoint = 20s;
  readings[1].since_checkpoint = 75s;
  CHECK(unsaved_of(readings) == 75s);
}

}  // namespace heartbeat_monitor_test
