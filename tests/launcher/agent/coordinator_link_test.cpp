// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/coordinator_link.h"

#include <doctest/doctest.h>

#include "rendezvous/job/bounds.h"

namespace coordinator_link_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

CoordinatorLink remote() {
  return CoordinatorLink{{.heartbeat = 1s, .lease = 3s}};
}

}  // namespace

TEST_CASE("a connected link is due one heartbeat per interval") {
  CoordinatorLink link = remote();
  link.came_up(t0);
  CHECK(link.next_deadline() == t0 + 1s);
  CHECK(link.take_due(t0 + 1s).heartbeat);
  CHECK_FALSE(link.take_due(t0 + 1s).heartbeat);
  CHECK(link.next_deadline() == t0 + 2s);
}

TEST_CASE("a link that cannot connect is dialled with growing pauses until a message arrives") {
  CoordinatorLink link = remote();
  link.went_down(t0);
  CHECK(link.next_deadline() == t0 + 50ms);
  CHECK(link.take_due(t0 + 50ms).dial);
  CHECK_FALSE(link.next_deadline());
  link.went_down(t0 + 50ms);
  CHECK(link.next_deadline() == t0 + 150ms);
  link.came_up(t0 + 150ms);
  link.heard(t0 + 160ms);
  link.went_down(t0 + 200ms);
  CHECK(link.next_deadline() == t0 + 250ms);
}

TEST_CASE("a connected link without a message for the lease is silent") {
  CoordinatorLink link = remote();
  link.came_up(t0);
  link.heard(t0 + 1s);
  CHECK_FALSE(link.silent(t0 + 4s - 1ns));
  CHECK(link.silent(t0 + 4s));
  link.went_down(t0 + 4s);
  CHECK_FALSE(link.silent(t0 + 4s));
  link.came_up(t0 + 5s);
  CHECK(link.silent_at() == t0 + 8s);
}

TEST_CASE("the lease counts from what was sent, and is shorter by the time that killing takes") {
  CoordinatorLink link = remote();
  link.came_up(t0 + 10s);
  link.heard(t0 + 11s);  // a message after the join proves that the join arrived
  CHECK(link.lease_over_at() == t0 + 13s - bounds::fence_margin);
  link.answered(t0 + 12s, 11s);
  CHECK(link.lease_over_at() == t0 + 14s - bounds::fence_margin);
  // A link that connects proves nothing yet.
  link.went_down(t0 + 12s);
  link.came_up(t0 + 13s);
  CHECK(link.lease_over_at() == t0 + 14s - bounds::fence_margin);
  CHECK(link.lease_is_over(t0 + 14s));
}

TEST_CASE("a heartbeat states when it was sent, and the round trip of the previous one") {
  CoordinatorLink link = remote();
  link.came_up(t0);
  CHECK(link.heartbeat(t0 + 1s) == link::Heartbeat{.sent = 1s});
  link.answered(t0 + 1s + 4ms, 1s);
  CHECK(link.heartbeat(t0 + 2s) == link::Heartbeat{.sent = 2s, .round_trip = 4ms});
}

TEST_CASE("an answer to a heartbeat that was never sent proves nothing") {
  CoordinatorLink link = remote();
  link.came_up(t0);
  link.answered(t0 + 1s, 77s);
  CHECK(link.lease_over_at() == t0 + 3s - bounds::fence_margin);
}

TEST_CASE("a link within the coordinator's process has no heartbeat and is never silent") {
  CoordinatorLink link{{.heartbeat = 1s, .lease = 3s, .local = true}};
  link.came_up(t0);
  CHECK_FALSE(link.next_deadline());
  CHECK_FALSE(link.silent(t0 + 24h));
  CHECK_FALSE(link.lease_is_over(t0 + 24h));
}

TEST_CASE(
    "one of several endpoints is silent after half a lease, and heartbeats are more frequent") {
  CoordinatorLink link{{.heartbeat = 5s, .lease = 10s}};
  link.be_one_of_several(true);
  link.came_up(t0);
  CHECK(link.silent_at() == t0 + 5s);
  CHECK(link.next_deadline() == t0 + Duration{10s} / 3);
  link.be_one_of_several(false);
  CHECK(link.silent_at() == t0 + 10s);
}

TEST_CASE("the next attempt comes at once, after a short pause, or after a growing one") {
  using Pause = CoordinatorLink::Pause;
  CoordinatorLink link = remote();
  link.went_down(t0, Pause::none);
  CHECK(link.next_deadline() == t0);
  link.went_down(t0, Pause::is_short);
  CHECK(link.next_deadline() == t0 + 50ms);
  for (int i = 0; i < 5; ++i) link.went_down(t0, Pause::is_short);
  CHECK(link.next_deadline() == t0 + 100ms);
  for (int i = 0; i < 9; ++i) link.went_down(t0, Pause::grows);
  CHECK(link.next_deadline() == t0 + 1s);
}

TEST_CASE("a takeover window extends the lease, and a shorter one counts for later answers only") {
  CoordinatorLink link = remote();
  constexpr Duration lease = 3s - bounds::fence_margin;
  link.came_up(t0);
  link.answered(t0 + 1s, 1s);
  link.leads(4s);
  CHECK(link.lease_over_at() == t0 + 1s + lease + 4s);
  CHECK(link.overdue_at() == t0 + 1s + lease + 4s + bounds::fence_margin / 2);
  link.leads(1s);
  CHECK(link.lease_over_at() == t0 + 1s + lease + 4s);
  link.answered(t0 + 3s, 3s);
  CHECK(link.lease_over_at() == t0 + 1s + lease + 4s);
  link.answered(t0 + 5s, 5s);
  CHECK(link.lease_over_at() == t0 + 5s + lease + 1s);
  link.leads(0s);
  link.answered(t0 + 9s, 9s);
  CHECK(link.lease_over_at() == t0 + 9s + lease);
}

TEST_CASE("answers from a leader in doubt count only once it is confirmed") {
  CoordinatorLink link = remote();
  constexpr Duration lease = 3s - bounds::fence_margin;
  link.came_up(t0);
  link.answered(t0 + 1s, 1s);
  link.leads(4s);
  link.went_down(t0 + 1s);
  link.came_up(t0 + 2s, /*in_doubt=*/true);
  link.heard(t0 + 2s);
  link.answered(t0 + 3s, 3s);
  CHECK(link.in_doubt());
  CHECK(link.lease_over_at() == t0 + 1s + lease + 4s);
  CHECK(link.proof() == t0 + 1s);
  SUBCASE("it is the leader") {
    link.leads(5s);
    CHECK_FALSE(link.in_doubt());
    CHECK(link.lease_over_at() == t0 + 3s + lease + 5s);
  }
  SUBCASE("it is the leader, with a shorter takeover window") {
    link.leads(0s);
    CHECK(link.lease_over_at() == t0 + 1s + lease + 4s);
    link.answered(t0 + 6s, 6s);
    CHECK(link.lease_over_at() == t0 + 6s + lease);
  }
  SUBCASE("it is not the leader") {
    link.went_down(t0 + 4s);
    link.came_up(t0 + 5s);
    CHECK(link.lease_over_at() == t0 + 1s + lease + 4s);
  }
}

TEST_CASE("without a seat there is no takeover window") {
  CoordinatorLink link = remote();
  link.came_up(t0);
  link.heard(t0);
  link.leads(4s);
  link.leads(1s);
  link.lose_seat();
  CHECK(link.lease_over_at() == t0 + 3s - bounds::fence_margin);
}

}  // namespace coordinator_link_test
