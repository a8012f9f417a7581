// SPDX-License-Identifier: BSD-3-Clause
// The model of etcd behaves as the real one, including its faults.

#include "tests/rendezvous/etcd/etcd_model.h"

#include <doctest/doctest.h>

namespace etcd_model_test {

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

etcd::KeptAlive kept(EtcdModel& etcd, TimePoint now, int member, etcd::LeaseId lease) {
  const auto heard = etcd.ask(now, member, etcd::KeepAlive{lease});
  REQUIRE(heard);
  return std::get<etcd::KeptAlive>(**heard);
}

// One key with a lease of three seconds.
EtcdModel with_lease() {
  EtcdModel etcd({.members = 3}, 1);
  REQUIRE(etcd.ask(t0, 0, etcd::Grant{7, 3})->has_value());
  REQUIRE(etcd.ask(t0, 0, etcd::Transaction{.success = {etcd::Put{"a", "1", 7}}})->has_value());
  return etcd;
}

// Advances until there is another leader.
TimePoint elect(EtcdModel& etcd, TimePoint now) {
  const auto term = etcd.term();
  while (etcd.term() == term) etcd.advance(now += 50ms);
  return now;
}

}  // namespace

TEST_CASE("a lease ends with its key some time after its last renewal") {
  EtcdModel etcd = with_lease();
  CHECK(kept(etcd, t0 + 2s, 1, 7).ttl_seconds == 3);
  etcd.advance(t0 + 4900ms);
  CHECK(etcd.find("a") != nullptr);
  etcd.advance(t0 + 5600ms);
  CHECK(etcd.find("a") == nullptr);
  CHECK(kept(etcd, t0 + 6s, 1, 7).ttl_seconds == 0);
}

TEST_CASE("nothing is answered without a quorum") {
  EtcdModel etcd = with_lease();
  etcd.stop(t0, 1);
  etcd.cut(t0, 2, true);
  etcd.advance(t0 + 10s);
  CHECK_FALSE(etcd.ask(t0 + 10s, 0, etcd::Transaction{.success = {etcd::Read{"a"}}}));
  CHECK_FALSE(etcd.ask(t0 + 10s, 0, etcd::KeepAlive{7}));
  // No lease ends either: the next leader restarts every lease.
  etcd.go_on(t0 + 10s, 1);
  CHECK(etcd.find("a") != nullptr);
  const auto led = elect(etcd, t0 + 10s);
  etcd.advance(led + 3900ms);
  CHECK(etcd.find("a") != nullptr);
  etcd.advance(led + 5s);
  CHECK(etcd.find("a") == nullptr);
}

TEST_CASE("a stale leader that resumes renews a lease that it no longer owns") {
  EtcdModel etcd = with_lease();
  const auto old_term = etcd.term();
  etcd.stop(t0 + 100ms, 0);
  const auto led = elect(etcd, t0 + 100ms);
  REQUIRE(led < t0 + 2800ms);
  etcd.go_on(led, 0);
  const auto answer = kept(etcd, led, 0, 7);
  CHECK(answer.ttl_seconds == 3);
  CHECK(answer.header.term == old_term);
  const auto read = etcd.ask(led + 200ms, 0, etcd::Transaction{.success = {etcd::Read{"a"}}});
  REQUIRE(read);
  CHECK(std::get<etcd::Decided>(**read).header.term == old_term + 1);
}

TEST_CASE("a stale leader may revoke a lease that its successor has renewed") {
  int ended = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EtcdModel etcd({.members = 3}, seed);
    REQUIRE(etcd.ask(t0, 0, etcd::Grant{7, 3})->has_value());
    etcd.stop(t0, 0);
    TimePoint now = elect(etcd, t0);
    for (; now < t0 + 6s; now += 100ms) CHECK(kept(etcd, now, 1, 7).ttl_seconds == 3);
    etcd.go_on(now, 0);
    etcd.advance(now);
    ended += etcd.leases() == 0 ? 1 : 0;
  }
  CHECK(ended > 0);
  CHECK(ended < 20);
}

TEST_CASE("a change that finds etcd full may be executed although it is reported as failed") {
  int made = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    EtcdModel etcd({.members = 1}, seed);
    etcd.fill(true);
    const auto heard = etcd.ask(t0, 0, etcd::Transaction{.success = {etcd::Put{"a", "1"}}});
    REQUIRE(heard);
    CHECK(heard->error().kind == etcd::Failure::Kind::no_space);
    made += etcd.find("a") != nullptr ? 1 : 0;
    CHECK(etcd.decided().has_value() == (etcd.find("a") != nullptr));
    CHECK(etcd.ask(t0, 0, etcd::Transaction{.success = {etcd::Delete{"a"}}})->has_value());
  }
  CHECK(made > 0);
  CHECK(made < 50);
}

TEST_CASE("a key cannot be put with an unknown lease") {
  EtcdModel etcd({.members = 1}, 1);
  const auto heard = etcd.ask(t0, 0, etcd::Transaction{.success = {etcd::Put{"a", "1", 9}}});
  CHECK(heard->error().kind == etcd::Failure::Kind::no_such_lease);
  CHECK(etcd.find("a") == nullptr);
}

}  // namespace etcd_model_test
