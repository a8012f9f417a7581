// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/memory_accounting.h"

#include <doctest/doctest.h>

#include <memory>
#include <utility>

namespace memory_accounting_test {

using namespace cpprun;

namespace {

PeerAddress address(std::uint8_t last) {
  PeerAddress peer;
  peer.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
  return peer;
}

constexpr std::uint64_t mib = 1024 * 1024;

}  // namespace

TEST_CASE("connections of one address share an account, and have a limit") {
  MemoryAccounting accounting({.address_connections_max = 2});
  CHECK(accounting.objection_to_connection(address(1)).empty());
  const AccountId one = accounting.open_connection(address(1));
  CHECK(accounting.open_connection(address(1)) == one);
  CHECK(accounting.objection_to_connection(address(1)) ==
        "its address has reached its limit of 2 connections");
  CHECK(accounting.objection_to_connection(address(2)).empty());
  CHECK(accounting.open_connection(address(2)) != one);
  accounting.close_connection(one);
  CHECK(accounting.objection_to_connection(address(1)).empty());
}

TEST_CASE("an IPv6 network has one account for all of its addresses") {
  MemoryAccounting accounting({.address_connections_max = 2});
  PeerAddress one{{0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2}, 5000};
  PeerAddress other = one;
  one.ip[15] = 1;
  other.ip[8] = 0xff;
  const AccountId account = accounting.open_connection(one);
  CHECK(accounting.open_connection(other) == account);
  CHECK(accounting.objection_to_connection(other) ==
        "its network 2001:db8:1:2::/64 has reached its limit of 2 connections");
  PeerAddress neighbour = one;
  neighbour.ip[7] = 3;
  CHECK(accounting.objection_to_connection(neighbour).empty());
  // Closed with the last of the two, in any order.
  accounting.close_connection(account);
  accounting.close_connection(account);
  CHECK(accounting.objection_to_connection(one).empty());
}

TEST_CASE("an account is kept while it is in use, and then reused") {
  MemoryAccounting accounting;
  const AccountId one = accounting.open_connection(address(1));
  accounting.charge(one, 100, 1);
  accounting.close_connection(one);
  CHECK(accounting.open_connection(address(1)) == one);
  accounting.close_connection(one);
  accounting.credit(one, 100, 1);
  CHECK(accounting.open_connection(address(2)) == one);
  CHECK(accounting.bytes_held_by(one) == 0);
}

TEST_CASE("a client that exceeds a limit receives the limit and the figures") {
  MemoryAccounting accounting(
      {.bytes_max = 800 * mib, .address_bytes_max = 300 * mib, .address_keys_max = 5});
  const AccountId one = accounting.open_connection(address(1));
  const AccountId two = accounting.open_connection(address(2));
  const AccountId three = accounting.open_connection(address(3));
  accounting.charge(one, 300 * mib, 5);
  CHECK(accounting.objection(one, 0).empty());
  CHECK(accounting.objection(one, 1) == "its address holds 300.0 of at most 300.0 MiB");
  CHECK(accounting.objection(one, 0, 1) == "its address holds 5 of at most 5 keys");
  accounting.charge(two, 300 * mib);
  // The last eighth is for small allocations.
  CHECK(accounting.objection(three, 200 * mib) ==
        "all clients together hold 600.0 of at most 700.0 MiB");
  CHECK(accounting.objection(three, 100 * mib).empty());
  accounting.charge(three, 199 * mib);
  CHECK_FALSE(accounting.objection(three, mib).empty());
  CHECK(accounting.objection(three, 1000, 1).empty());
  accounting.credit(two, 300 * mib);
  CHECK(accounting.objection(three, 90 * mib).empty());
  CHECK(accounting.bytes_held() == 499 * mib);
}

TEST_CASE("the account without an address has no limits of its own") {
  MemoryAccounting accounting({.address_bytes_max = 10, .address_keys_max = 1});
  accounting.charge({}, 100, 5);
  CHECK(accounting.objection({}, 100, 5).empty());
}

TEST_CASE("a charge is booked for as long as it lives, wherever it moves") {
  MemoryAccounting accounting;
  {
    Reservation charge(accounting, {}, 100, true);
    Reservation moved(std::move(charge));
    CHECK(accounting.bytes_held() == 100);
    moved.grow(20);
    CHECK(accounting.bytes_held() == 120);
    moved.resize(50);
    CHECK(accounting.bytes_held() == 50);
    CHECK(moved.is_of(accounting, {}));
    moved = Reservation();
    CHECK(accounting.bytes_held() == 0);
  }
  CHECK(accounting.bytes_held() == 0);
}

TEST_CASE("discarded memory is freed at once if freeing is not deferred") {
  struct Counting : DeferredFree {
    explicit Counting(int& number) : alive(number) { ++alive; }
    ~Counting() override { --alive; }
    bool free_some(std::size_t&) override { return ++calls == 3; }
    int& alive;
    int calls = 0;
  };
  int alive = 0;
  MemoryAccounting accounting;
  accounting.free_later(std::make_unique<Counting>(alive));
  CHECK(alive == 0);
  accounting.tend(true);
  accounting.free_later(std::make_unique<Counting>(alive));
  accounting.free_some(1);
  accounting.free_some(1);
  CHECK(alive == 1);
  accounting.free_some(1);
  CHECK(alive == 0);
  accounting.free_later(std::make_unique<Counting>(alive));
  accounting.tend(false);
  CHECK(alive == 0);
}

}  // namespace memory_accounting_test
