// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/coordinator_link.h"

#include <doctest/doctest.h>

#include "proto/bounds.h"

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

CoordinatorLink remote() {
  return CoordinatorLink{{.heartbeat = 1s, .lease = 3s}};
}

}  // namespace

TEST_CASE("a link that is up is due a heartbeat at each interval, and told so once") {
  CoordinatorLink link = remote();
  link.came_up(t0);
  CHECK(link.next_deadline() == t0 + 1s);
  CHECK(link.take_due(t0 + 1s).heartbeat);
  CHECK_FALSE(link.take_due(t0 + 1s).heartbeat);
  CHECK(link.next_deadline() == t0 + 2s);
}

TEST_CASE("a link that cannot be made is dialled with growing pauses until something is heard") {
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

TEST_CASE("a link that is up and answers nothing for the lease is of no use") {
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

TEST_CASE("our lease counts from what we sent and is shorter by what killing takes") {
  CoordinatorLink link = remote();
  link.came_up(t0 + 10s);
  link.heard(t0 + 11s);  // what came after our join proves that it arrived
  CHECK(link.lease_over_at() == t0 + 13s - bounds::fence_margin);
  link.answered(t0 + 12s, 11s);
  CHECK(link.lease_over_at() == t0 + 14s - bounds::fence_margin);
  // A link that comes up proves nothing yet.
  link.went_down(t0 + 12s);
  link.came_up(t0 + 13s);
  CHECK(link.lease_over_at() == t0 + 14s - bounds::fence_margin);
  CHECK(link.lease_is_over(t0 + 14s));
}

TEST_CASE("a heartbeat says when it was sent, and how long the one before took") {
  CoordinatorLink link = remote();
  link.came_up(t0);
  CHECK(link.heartbeat(t0 + 1s) == link::Heartbeat{.sent = 1s});
  link.answered(t0 + 1s + 4ms, 1s);
  CHECK(link.heartbeat(t0 + 2s) == link::Heartbeat{.sent = 2s, .round_trip = 4ms});
}

TEST_CASE("an answer to what was never sent proves nothing") {
  CoordinatorLink link = remote();
  link.came_up(t0);
  link.answered(t0 + 1s, 77s);
  CHECK(link.lease_over_at() == t0 + 3s - bounds::fence_margin);
}

TEST_CASE("a link within the coordinator's own process has no heartbeat and is never silent") {
  CoordinatorLink link{{.heartbeat = 1s, .lease = 3s, .local = true}};
  link.came_up(t0);
  CHECK_FALSE(link.next_deadline());
  CHECK_FALSE(link.silent(t0 + 24h));
  CHECK_FALSE(link.lease_is_over(t0 + 24h));
}
