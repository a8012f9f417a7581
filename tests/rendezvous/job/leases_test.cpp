// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/leases.h"

#include <doctest/doctest.h>

#include <utility>

#include "rendezvous/job/bounds.h"

namespace leases_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {
constexpr TimePoint t0{};
constexpr LinkId alice{1};
constexpr LinkId bob{2};

// Like a driver that is awake: it calls at every deadline that it gets.
std::vector<Leases::Expired> awake_at(Leases& leases, TimePoint now) {
  for (auto due = leases.next_expiry(); due && *due < now; due = leases.next_expiry()) {
    CHECK(leases.expire(*due).empty());
  }
  return leases.expire(now);
}
}  // namespace

TEST_CASE("without leases there is no deadline") {
  Leases leases{3s};
  CHECK(leases.next_expiry() == std::nullopt);
  CHECK(leases.expire(t0 + 100s).empty());
}

TEST_CASE("a lease that is not renewed expires, and a renewed one does not") {
  Leases leases{3s};
  leases.renew(alice, t0);
  leases.renew(bob, t0 + 1s);
  leases.renew(alice, t0 + 2s);
  // Two checks that show that the coordinator is awake, and then the end.
  CHECK(leases.next_expiry() == t0 + 4s - bounds::coordinator_nap);
  CHECK(leases.expire(t0 + 4s - bounds::coordinator_nap).empty());
  CHECK(leases.next_expiry() == t0 + 4s - bounds::coordinator_blink);
  CHECK(leases.expire(t0 + 4s - bounds::coordinator_blink).empty());
  CHECK(leases.next_expiry() == t0 + 4s);
  CHECK(leases.expire(t0 + 4s) == std::vector{Leases::Expired{bob, t0 + 1s}});
  CHECK(awake_at(leases, t0 + 5s) == std::vector{Leases::Expired{alice, t0 + 2s}});
}

TEST_CASE("a coordinator that has slept reads its messages before it gives up a node") {
  Leases leases{3s};
  leases.renew(alice, t0);
  leases.renew(bob, t0);
  const TimePoint awake = t0 + 60s;
  CHECK(leases.expire(awake).empty());
  leases.renew(alice, awake + 1s);
  // Nodes may have slept as long, and wake a little later: they get one lease, but not a second.
  CHECK(awake_at(leases, awake + 3s - 1ms).empty());
  CHECK(awake_at(leases, awake + 3s) == std::vector{Leases::Expired{bob, t0}});
  CHECK(leases.next_expiry() == awake + 1s + 3s - bounds::coordinator_nap);
}

TEST_CASE("after a short sleep nodes get the same time again, and at least a nap") {
  for (const auto& [late, hold] :
       {std::pair{1500ms, Duration{1500ms}}, std::pair{50ms, Duration{bounds::coordinator_nap}}}) {
    CAPTURE(late.count());
    Leases leases{3s};
    leases.renew(alice, t0);
    const TimePoint awake = t0 + 3s + late;
    CHECK(leases.expire(awake).empty());
    CHECK(awake_at(leases, awake + hold - 1ms).empty());
    CHECK(awake_at(leases, awake + hold).size() == 1);
  }
}

TEST_CASE("a coordinator whose sleep ends exactly with a lease has slept all the same") {
  Leases leases{3s};
  leases.renew(alice, t0);
  leases.renew(bob, t0 + 1ms);
  // Due at t0 + 3s, and called at t0 + 3s: only the lack of a call shortly before shows the sleep.
  CHECK(leases.expire(t0 + 3s).empty());
  leases.renew(alice, t0 + 3s);
  leases.renew(bob, t0 + 3s);
  CHECK(awake_at(leases, t0 + 5s).empty());
  CHECK(awake_at(leases, t0 + 6s).size() == 2);
}

TEST_CASE("a sleep that ends just before a lease leaves the holder a nap to be heard") {
  Leases leases{3s};
  leases.renew(alice, t0);
  leases.renew(bob, t0);
  CHECK(awake_at(leases, t0 + 1s).empty());
  // It wakes 60 ms before the end, and messages that are sent then take longer.
  CHECK(leases.expire(t0 + 3s - 60ms).empty());
  CHECK(awake_at(leases, t0 + 3s).empty());
  leases.renew(alice, t0 + 3s + 90ms);
  CHECK(awake_at(leases, t0 + 3s + bounds::coordinator_nap) ==
        std::vector{Leases::Expired{bob, t0}});
}

TEST_CASE("a nap much shorter than a lease counts if a lease ends in it") {
  Leases leases{2s};
  leases.renew(alice, t0);
  CHECK(awake_at(leases, t0 + 1900ms).empty());
  // It was awake then, sleeps for 0.1 s, and has not read the messages of alice.
  CHECK(leases.expire(t0 + 2s + 1ms).empty());
  leases.renew(alice, t0 + 2s + 2ms);
  CHECK(awake_at(leases, t0 + 3s).empty());
}

TEST_CASE("a coordinator that falls asleep again while it reads resumes reading") {
  Leases leases{3s};
  leases.renew(alice, t0);
  CHECK(leases.expire(t0 + 60s).empty());
  CHECK(leases.expire(t0 + 120s).empty());
  leases.renew(alice, t0 + 120s);
  CHECK(awake_at(leases, t0 + 122s).empty());
}

TEST_CASE("a coordinator that is always late still gives up dead nodes") {
  Leases leases{3s};
  leases.renew(alice, t0);
  CHECK(leases.expire(t0 + 4s).empty());
  CHECK(leases.expire(t0 + 9s).empty());
  CHECK(leases.expire(t0 + 14s).empty());
  CHECK(leases.expire(t0 + 19s).size() == 1);
}

TEST_CASE("an expired lease is reported once") {
  Leases leases{3s};
  leases.renew(alice, t0);
  CHECK(awake_at(leases, t0 + 3s) == std::vector{Leases::Expired{alice, t0}});
  CHECK(leases.expire(t0 + 30s).empty());
}

TEST_CASE("a forgotten holder never expires") {
  Leases leases{3s};
  leases.renew(alice, t0);
  leases.forget(alice);
  leases.forget(bob);
  CHECK(leases.next_expiry() == std::nullopt);
}

TEST_CASE("a lease that moves to another link keeps its age") {
  Leases leases{3s};
  leases.renew(alice, t0);
  leases.renew(bob, t0 + 1s);
  leases.move(alice, LinkId{7});
  CHECK(awake_at(leases, t0 + 3s) == std::vector{Leases::Expired{LinkId{7}, t0}});
}

TEST_CASE("the time of the last message is known while a holder is watched") {
  Leases leases{3s};
  CHECK_FALSE(leases.heard(alice));
  leases.renew(alice, t0 + 1s);
  CHECK(leases.heard(alice) == t0 + 1s);
  leases.forget(alice);
  CHECK_FALSE(leases.heard(alice));
}

}  // namespace leases_test
