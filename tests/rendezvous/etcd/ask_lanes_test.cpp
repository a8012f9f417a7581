// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/election_requests.h"

#include <doctest/doctest.h>

#include "rendezvous/etcd/bounds.h"

namespace ask_lanes_test {

using namespace cpprun;
using namespace std::chrono_literals;
using election::Lane;
using Step = AskLanes::Step;

namespace {

constexpr TimePoint t0{};

election::Ask look(AskLanes& lanes, TimePoint now = t0) {
  return lanes.ask(now, Lane::lease, Step::look, etcd::Transaction{}, 500ms);
}

}  // namespace

TEST_CASE("each lane has one request at a time and does not wait for the other lane") {
  AskLanes lanes(2);
  const auto one = look(lanes);
  CHECK_FALSE(lanes.is_idle(Lane::lease));
  CHECK(lanes.is_asked(Lane::lease, Step::look));
  REQUIRE(lanes.is_ready(Lane::writes, t0));
  const auto other = lanes.ask(t0 + 1ms, Lane::writes, Step::write, etcd::Transaction{}, 1s);
  CHECK(one.id != other.id);
  CHECK(other.timeout == 1s);
  const auto taken = lanes.take(other.id);
  REQUIRE(taken);
  CHECK(taken->step == Step::write);
  CHECK(taken->sent == t0 + 1ms);
  CHECK_FALSE(lanes.take(other.id));
  CHECK_FALSE(lanes.take(AskId{99}));
  CHECK_FALSE(lanes.is_idle(Lane::lease));
}

TEST_CASE("the next member is asked at once, and the first one again after a pause") {
  AskLanes lanes(3);
  TimePoint now = t0;
  for (std::size_t member = 0; member < 3; ++member) {
    REQUIRE(lanes.is_ready(Lane::lease, now));
    CHECK_FALSE(lanes.has_failed_everywhere(Lane::lease));
    const auto ask = look(lanes, now);
    CHECK(ask.endpoint == member);
    now += 1ms;
    lanes.failed(now, *lanes.take(ask.id), /*is_of_member=*/true);
  }
  CHECK(lanes.has_failed_everywhere(Lane::lease));
  CHECK_FALSE(lanes.is_ready(Lane::lease, now));
  CHECK(lanes.ready_at(Lane::lease) == now + bounds::etcd_round_pause);
  now = lanes.ready_at(Lane::lease);
  const auto again = look(lanes, now);
  CHECK(again.endpoint == 0);
  lanes.succeeded(*lanes.take(again.id));
  CHECK_FALSE(lanes.has_failed_everywhere(Lane::lease));
}

TEST_CASE("a failed member is skipped once, whichever lane it fails in") {
  AskLanes lanes(3);
  const auto one = look(lanes);
  const auto other = lanes.ask(t0, Lane::writes, Step::write, etcd::Transaction{}, 1s);
  lanes.failed(t0, *lanes.take(one.id), true);
  lanes.failed(t0, *lanes.take(other.id), true);
  CHECK(look(lanes).endpoint == 1);
}

TEST_CASE("a failure that another member would repeat pauses the lane and keeps the member") {
  AskLanes lanes(3);
  const auto ask = look(lanes);
  lanes.failed(t0, *lanes.take(ask.id), /*is_of_member=*/false);
  CHECK_FALSE(lanes.is_ready(Lane::lease, t0));
  const auto again = look(lanes, t0 + 1s);
  CHECK(again.endpoint == 0);
  // A request that cannot wait is sent without a pause.
  lanes.failed(t0 + 1s, *lanes.take(again.id), /*is_of_member=*/false, /*rests=*/false);
  CHECK(lanes.is_ready(Lane::lease, t0 + 1s));
}

TEST_CASE("a request of an earlier run is recognized") {
  AskLanes lanes(1);
  const auto ask = look(lanes);
  lanes.begin_life();
  const auto taken = lanes.take(ask.id);
  REQUIRE(taken);
  CHECK_FALSE(lanes.is_of_this_life(*taken));
}

}  // namespace ask_lanes_test
