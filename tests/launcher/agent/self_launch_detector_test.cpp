// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/misconfiguration.h"

#include <doctest/doctest.h>

namespace self_launch_detector_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

bool speaks_of(const std::optional<std::string>& sentence, const std::string& part) {
  return sentence && sentence->find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("nothing is probed before the timeout, and then only at intervals") {
  SelfLaunchDetector world({.silence = 60s});
  CHECK(world.next_deadline() == std::nullopt);
  world.began(t0);
  CHECK(world.next_deadline() == t0 + 60s);
  CHECK_FALSE(world.take_due(t0 + 59s));
  CHECK(world.take_due(t0 + 60s));
  CHECK(world.next_deadline() == t0 + 70s);
  world.over();
  CHECK_FALSE(world.take_due(t0 + 24h));
}

TEST_CASE("a store that was used ends the suspicion") {
  SelfLaunchDetector world({.silence = 60s});
  world.began(t0);
  REQUIRE(world.take_due(t0 + 60s));
  const WorldProbe look{.store_asked = true, .listeners = {"pid 7 listens on port 12355"}};
  CHECK(world.judge(t0 + 60s, look) == std::nullopt);
  CHECK(world.next_deadline() == std::nullopt);
}

TEST_CASE("a first worker that listens, or has spawned workers, is reported once") {
  SelfLaunchDetector world({.silence = 60s});
  world.began(t0);
  REQUIRE(world.take_due(t0 + 60s));
  SUBCASE("it listens") {
    const auto said = world.judge(t0 + 60s, {.listeners = {"pid 7 listens on port 12355"}});
    CHECK(speaks_of(said, "no worker has contacted the store for 60 s"));
    CHECK(speaks_of(said, "listens on a port of its own (pid 7 listens on port 12355)"));
  }
  SUBCASE("it has spawned one") {
    const auto said = world.judge(t0 + 60s, {.spawned = {"pid 7", "pid 8"}});
    CHECK(speaks_of(said, "with multiprocessing (pid 7, pid 8)"));
  }
  SUBCASE("it has spawned many") {
    const auto said = world.judge(t0 + 60s, {.spawned = {"1", "2", "3", "4", "5"}});
    CHECK(speaks_of(said, "(1, 2, 3, 4 and others)"));
  }
  CHECK(world.next_deadline() == std::nullopt);
  CHECK(world.judge(t0 + 70s, {.spawned = {"pid 7"}}) == std::nullopt);
}

TEST_CASE("a worker that computes is probed again, and a sleeping one is reported") {
  SelfLaunchDetector world({.silence = 60s, .sleepers = true});
  world.began(t0);
  REQUIRE(world.take_due(t0 + 60s));
  CHECK(world.judge(t0 + 60s, {.processor_time = 50s}) == std::nullopt);
  REQUIRE(world.take_due(t0 + 70s));
  CHECK(world.judge(t0 + 70s, {.processor_time = 59s}) == std::nullopt);
  // The pauses grow, since a script that never uses the store shall not be disturbed for ever.
  CHECK_FALSE(world.take_due(t0 + 80s));
  REQUIRE(world.take_due(t0 + 90s));
  const auto said = world.judge(t0 + 90s, {.processor_time = 59s + 100ms});
  CHECK(speaks_of(said, "for 90 s, and this node's first worker has been idle for 20 s"));
}

TEST_CASE("sleeping workers are ignored when they are not suspected") {
  SelfLaunchDetector world({.silence = 60s});
  world.began(t0);
  for (const auto at : {60s, 70s, 90s}) {
    REQUIRE(world.take_due(t0 + at));
    CHECK(world.judge(t0 + at, {.processor_time = 1s}) == std::nullopt);
  }
}

TEST_CASE("a new round resets the detector") {
  SelfLaunchDetector world({.silence = 60s, .sleepers = true});
  world.began(t0);
  REQUIRE(world.take_due(t0 + 60s));
  CHECK(world.judge(t0 + 60s, {.processor_time = 1s}) == std::nullopt);
  world.began(t0 + 65s);
  REQUIRE(world.take_due(t0 + 125s));
  CHECK(world.judge(t0 + 125s, {.processor_time = 1s}) == std::nullopt);
}

}  // namespace self_launch_detector_test
