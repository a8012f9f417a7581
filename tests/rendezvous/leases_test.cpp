#include "rendezvous/leases.h"

#include <doctest/doctest.h>

using namespace cpprun;
using namespace std::chrono_literals;

namespace {
constexpr TimePoint t0{};
constexpr LinkId alice{1};
constexpr LinkId bob{2};
}  // namespace

TEST_CASE("nobody's lease means no deadline") {
  Leases leases{3s};
  CHECK(leases.next_expiry() == std::nullopt);
  CHECK(leases.expire(t0 + 100s).empty());
}

TEST_CASE("a lease that is not renewed runs out, one that is renewed does not") {
  Leases leases{3s};
  leases.renew(alice, t0);
  leases.renew(bob, t0 + 1s);
  leases.renew(alice, t0 + 2s);
  CHECK(leases.next_expiry() == t0 + 4s);
  CHECK(leases.expire(t0 + 4s - 1ns).empty());
  CHECK(leases.expire(t0 + 4s) == std::vector{bob});
  CHECK(leases.next_expiry() == t0 + 5s);
}

TEST_CASE("an expired lease is reported once") {
  Leases leases{3s};
  leases.renew(alice, t0);
  CHECK(leases.expire(t0 + 3s) == std::vector{alice});
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
  CHECK(leases.expire(t0 + 3s) == std::vector{LinkId{7}});
}
