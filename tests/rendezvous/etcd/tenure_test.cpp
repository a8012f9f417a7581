// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/leader_lease.h"

#include <doctest/doctest.h>

namespace tenure_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr Duration ttl = 4s;
constexpr Duration right = ttl - bounds::contest_margin(ttl);
constexpr Duration pause = bounds::contest_renewal_pause(ttl);
const GrantedLease first{7, ttl, t0, 1};

}  // namespace

TEST_CASE(
    "a right is counted from the moment at which it was asked for, and ends before the lease") {
  Tenure tenure(first);
  CHECK(tenure.until() == t0 + 3800ms);
  CHECK(tenure.renew_at() == t0 + pause);
  CHECK(tenure.renewed_lease() == 7);
  // A short lease has a margin all the same.
  CHECK(GrantedLease{7, 500ms, t0, 1}.until() == t0 + 450ms);
}

TEST_CASE("a renewal counts when the key was seen after it") {
  Tenure tenure(first);
  tenure.renewed(t0 + 1s, ttl);
  CHECK(tenure.needs_look());
  CHECK(tenure.until() == t0 + right);
  CHECK(tenure.renew_at() == t0 + 1s + pause);
  CHECK(tenure.seen(1));
  CHECK_FALSE(tenure.needs_look());
  CHECK(tenure.until() == t0 + 1s + right);
  // A look alone says nothing.
  CHECK_FALSE(tenure.seen(1));
  CHECK(tenure.until() == t0 + 1s + right);
}

TEST_CASE("a renewal that has failed counts for nothing") {
  Tenure tenure(first);
  tenure.renewed(t0 + 1s, ttl);
  tenure.renewal_failed(t0 + 2s);
  CHECK_FALSE(tenure.seen(1));
  CHECK(tenure.until() == t0 + right);
  CHECK(tenure.renew_at() == t0 + 2s);
}

TEST_CASE("less time than was granted is less, and more is not more") {
  Tenure tenure(first);
  tenure.renewed(t0 + 1s, 2s);
  CHECK(tenure.seen(1));
  CHECK(tenure.until() == t0 + 1s + 1900ms);
  tenure.renewed(t0 + 2s, 1h);
  CHECK(tenure.seen(1));
  CHECK(tenure.until() == t0 + 2s + 1900ms);
  CHECK(lease_time(3) == 3s);
  CHECK(lease_time(INT64_MAX) == bounds::contest_ttl_max);
}

TEST_CASE("in a new term of etcd's it wants a new lease, and the old one is renewed no more") {
  Tenure tenure(first);
  CHECK_FALSE(tenure.wants_next());
  CHECK_FALSE(tenure.seen(2));
  CHECK(tenure.wants_next());
  CHECK(tenure.term() == 2);
  tenure.take_next({8, ttl, t0 + 1s, 2});
  CHECK_FALSE(tenure.wants_next());
  CHECK(tenure.renewed_lease() == 8);
  CHECK(tenure.owns(7));
  CHECK(tenure.owns(8));
  CHECK_FALSE(tenure.owns(9));
  // The key may be bound to either: the right is the shorter one.
  tenure.renewed(t0 + 2s, ttl);
  CHECK_FALSE(tenure.seen(2));
  CHECK(tenure.until() == t0 + right);
  CHECK(tenure.moved() == 7);
  CHECK(tenure.until() == t0 + 2s + right);
  CHECK_FALSE(tenure.owns(7));
  CHECK_FALSE(tenure.wants_next());
}

TEST_CASE("a new lease that is lost leaves the old one") {
  Tenure tenure(first);
  tenure.seen(2);
  tenure.take_next({8, ttl, t0 + 1s, 2});
  tenure.renewed(t0 + 2s, ttl);
  tenure.lose_next();
  CHECK_FALSE(tenure.needs_look());
  CHECK(tenure.renewed_lease() == 7);
  CHECK(tenure.until() == t0 + right);
  CHECK(tenure.wants_next());
}

}  // namespace tenure_test
