// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/daemon_snapshot.h"

#include <doctest/doctest.h>

namespace leader_watch_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

ClockPair at(std::chrono::seconds second) {
  return {.now = TimePoint{} + second, .wall = WallTime{} + 1000s + second};
}
const LeaderWatch::Leader alice{.name = "a", .place = "a:1", .epoch = 3};
const LeaderWatch::Leader bob{.name = "b", .place = "b:1", .epoch = 4};

}  // namespace

TEST_CASE("the first known leader is no change, unless this cpprund has won") {
  LeaderWatch follows;
  CHECK_FALSE(follows.leads(at(1s), alice));
  CHECK(follows.since() == WallTime{} + 1001s);
  CHECK(follows.changes() == 0);
  LeaderWatch wins;
  auto won = alice;
  won.is_won = true;
  const auto change = wins.leads(at(1s), won);
  REQUIRE(change);
  CHECK(change->from.empty());
  CHECK(change->to == "a");
  CHECK_FALSE(change->silence);
}

TEST_CASE("a change of the leader has the first reason and the time without a leader") {
  LeaderWatch watch;
  watch.leads(at(1s), alice);
  watch.lost(TimePoint{} + 10s, "no message for 1 s");
  watch.lost(TimePoint{} + 12s, "its lease has ended");
  const auto change = watch.leads(at(13s), bob);
  REQUIRE(change);
  CHECK(*change == LeaderChange{.time = WallTime{} + 1013s,
                                .from = "a",
                                .from_place = "a:1",
                                .to = "b",
                                .to_place = "b:1",
                                .epoch = 4,
                                .reason = "no message for 1 s",
                                .silence = 3s});
  CHECK(watch.last() == change);
  CHECK(watch.changes() == 1);
  CHECK(watch.since() == WallTime{} + 1013s);
}

TEST_CASE("a leader that returns is no change, and its loss is forgotten") {
  LeaderWatch watch;
  watch.leads(at(1s), alice);
  watch.lost(TimePoint{} + 10s, "no message for 1 s");
  CHECK_FALSE(watch.leads(at(11s), alice));
  CHECK(watch.since() == WallTime{} + 1001s);
  const auto change = watch.leads(at(13s), bob);
  REQUIRE(change);
  CHECK_FALSE(change->silence);
  CHECK(change->reason != "no message for 1 s");
}

TEST_CASE("the same leader in a later epoch is a change") {
  LeaderWatch watch;
  watch.leads(at(1s), alice);
  watch.lost(TimePoint{} + 2s, "its lease has ended");
  auto again = alice;
  again.epoch = 5;
  const auto change = watch.leads(at(4s), again);
  REQUIRE(change);
  CHECK(change->from == change->to);
  CHECK(change->silence == 2s);
}

TEST_CASE("a loss before the first leader is ignored") {
  LeaderWatch watch;
  watch.lost(TimePoint{} + 2s, "no leader");
  CHECK_FALSE(watch.leads(at(4s), alice));
}

}  // namespace leader_watch_test
