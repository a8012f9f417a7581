// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/leader_lease.h"
#include "rendezvous/etcd/bounds.h"

#include <doctest/doctest.h>

namespace leader_lease_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr Duration ttl = 4s;
constexpr Duration right = ttl - bounds::election_margin(ttl);
constexpr Duration pause = bounds::election_renewal_pause(ttl);
const GrantedLease first{7, ttl, t0, 1};

}  // namespace

TEST_CASE("a lease counts from the time of its request and ends before etcd's lease") {
  LeaderLease leader_lease(first);
  CHECK(leader_lease.until() == t0 + 3800ms);
  CHECK(leader_lease.renew_at() == t0 + pause);
  CHECK(leader_lease.renewed_lease() == 7);
  // Even a short lease has a margin.
  CHECK(GrantedLease{7, 500ms, t0, 1}.until() == t0 + 450ms);
}

TEST_CASE("a renewal counts when the key was seen after it") {
  LeaderLease leader_lease(first);
  leader_lease.renewed(t0 + 1s, ttl);
  CHECK(leader_lease.needs_look());
  CHECK(leader_lease.until() == t0 + right);
  CHECK(leader_lease.renew_at() == t0 + 1s + pause);
  CHECK(leader_lease.seen(1));
  CHECK_FALSE(leader_lease.needs_look());
  CHECK(leader_lease.until() == t0 + 1s + right);
  // Seeing the key alone changes nothing.
  CHECK_FALSE(leader_lease.seen(1));
  CHECK(leader_lease.until() == t0 + 1s + right);
}

TEST_CASE("a failed renewal does not count") {
  LeaderLease leader_lease(first);
  leader_lease.renewed(t0 + 1s, ttl);
  leader_lease.renewal_failed(t0 + 2s);
  CHECK_FALSE(leader_lease.seen(1));
  CHECK(leader_lease.until() == t0 + right);
  CHECK(leader_lease.renew_at() == t0 + 2s);
}

TEST_CASE("a shorter TTL than requested counts, a longer one does not") {
  LeaderLease leader_lease(first);
  leader_lease.renewed(t0 + 1s, 2s);
  CHECK(leader_lease.seen(1));
  CHECK(leader_lease.until() == t0 + 1s + 1900ms);
  leader_lease.renewed(t0 + 2s, 1h);
  CHECK(leader_lease.seen(1));
  CHECK(leader_lease.until() == t0 + 2s + 1900ms);
  CHECK(lease_time(3) == 3s);
  CHECK(lease_time(INT64_MAX) == bounds::election_ttl_max);
}

TEST_CASE("in a new raft term a new lease is wanted, and the old one is no longer renewed") {
  LeaderLease leader_lease(first);
  CHECK_FALSE(leader_lease.wants_next());
  CHECK_FALSE(leader_lease.seen(2));
  CHECK(leader_lease.wants_next());
  CHECK(leader_lease.term() == 2);
  leader_lease.take_next({8, ttl, t0 + 1s, 2});
  CHECK_FALSE(leader_lease.wants_next());
  CHECK(leader_lease.renewed_lease() == 8);
  CHECK(leader_lease.owns(7));
  CHECK(leader_lease.owns(8));
  CHECK_FALSE(leader_lease.owns(9));
  // The key may be attached to either lease: the shorter one counts.
  leader_lease.renewed(t0 + 2s, ttl);
  CHECK_FALSE(leader_lease.seen(2));
  CHECK(leader_lease.until() == t0 + right);
  CHECK(leader_lease.moved() == 7);
  CHECK(leader_lease.until() == t0 + 2s + right);
  CHECK_FALSE(leader_lease.owns(7));
  CHECK_FALSE(leader_lease.wants_next());
}

TEST_CASE("a lost new lease leaves the old one in force") {
  LeaderLease leader_lease(first);
  leader_lease.seen(2);
  leader_lease.take_next({8, ttl, t0 + 1s, 2});
  leader_lease.renewed(t0 + 2s, ttl);
  leader_lease.lose_next();
  CHECK_FALSE(leader_lease.needs_look());
  CHECK(leader_lease.renewed_lease() == 7);
  CHECK(leader_lease.until() == t0 + right);
  CHECK(leader_lease.wants_next());
}

}  // namespace leader_lease_test
