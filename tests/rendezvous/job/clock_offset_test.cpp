// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round.h"

#include <doctest/doctest.h>

#include "rendezvous/job/bounds.h"

namespace clock_offset_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// The agent's clock started an hour after the coordinator's.
TimePoint coordinator_time(link::AgentTime agent) {
  return TimePoint{} + 1h + agent;
}

}  // namespace

TEST_CASE("a node that has sent no message has no clock offset") {
  CHECK_FALSE(ClockOffset{}.by_coordinator(5s));
}

TEST_CASE("the message with the shortest delay determines the clock offset") {
  ClockOffset clock;
  clock.heard(coordinator_time(1s) + 40ms, 1s);
  clock.heard(coordinator_time(2s) + 2ms, 2s);
  clock.heard(coordinator_time(3s) + 900ms, 3s);
  CHECK(clock.by_coordinator(10s) == coordinator_time(10s) + 2ms);
}

TEST_CASE("the one-way delay is half of the shortest round trip") {
  ClockOffset clock;
  clock.heard(coordinator_time(1s) + 2ms, 1s, 4ms);
  clock.heard(coordinator_time(2s) + 70ms, 2s, 90ms);
  CHECK(clock.by_coordinator(10s) == coordinator_time(10s));
}

TEST_CASE("clock drift is followed: samples older than two windows are dropped") {
  ClockOffset clock;
  clock.heard(coordinator_time(0s), 0s);
  for (int i = 1; i <= 2 * bounds::clock_samples; ++i) {
    clock.heard(coordinator_time(i * 1s) + 5ms, i * 1s);
  }
  CHECK(clock.by_coordinator(100s) == coordinator_time(100s) + 5ms);
}

TEST_CASE("a time converted for an agent is the same moment") {
  ClockOffset clock;
  CHECK_FALSE(clock.by_agent(coordinator_time(10s)));
  clock.heard(coordinator_time(1s) + 2ms, 1s, 4ms);
  CHECK(clock.by_agent(coordinator_time(10s)) == link::AgentTime{10s});
  CHECK(clock.by_coordinator(*clock.by_agent(coordinator_time(10s))) == coordinator_time(10s));
}

}  // namespace clock_offset_test
