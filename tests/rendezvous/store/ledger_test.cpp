// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/ledger.h"

#include <doctest/doctest.h>

#include <memory>
#include <utility>

namespace ledger_test {

using namespace cpprun;

namespace {

PeerAddress address(std::uint8_t last) {
  PeerAddress peer;
  peer.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
  return peer;
}

constexpr std::uint64_t mib = 1024 * 1024;

}  // namespace

TEST_CASE("connections of one address share a page, and have a limit") {
  Ledger ledger({.address_connections_max = 2});
  CHECK(ledger.objection_to_connection(address(1)).empty());
  const AccountId one = ledger.open_connection(address(1));
  CHECK(ledger.open_connection(address(1)) == one);
  CHECK(ledger.objection_to_connection(address(1)) ==
        "its address has all of the 2 connections that it may");
  CHECK(ledger.objection_to_connection(address(2)).empty());
  CHECK(ledger.open_connection(address(2)) != one);
  ledger.close_connection(one);
  CHECK(ledger.objection_to_connection(address(1)).empty());
}

TEST_CASE("whoever has a network of IPv6 addresses has one page, with either half of them") {
  Ledger ledger({.address_connections_max = 2});
  PeerAddress one{{0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2}, 5000};
  PeerAddress other = one;
  one.ip[15] = 1;
  other.ip[8] = 0xff;
  const AccountId account = ledger.open_connection(one);
  CHECK(ledger.open_connection(other) == account);
  CHECK(ledger.objection_to_connection(other) ==
        "its network 2001:db8:1:2::/64 has all of the 2 connections that it may");
  PeerAddress neighbour = one;
  neighbour.ip[7] = 3;
  CHECK(ledger.objection_to_connection(neighbour).empty());
  // Gone when both are, whichever comes last.
  ledger.close_connection(account);
  ledger.close_connection(account);
  CHECK(ledger.objection_to_connection(one).empty());
}

TEST_CASE("a page is kept for as long as something is on it, and then given to another") {
  Ledger ledger;
  const AccountId one = ledger.open_connection(address(1));
  ledger.charge(one, 100, 1);
  ledger.close_connection(one);
  CHECK(ledger.open_connection(address(1)) == one);
  ledger.close_connection(one);
  ledger.credit(one, 100, 1);
  CHECK(ledger.open_connection(address(2)) == one);
  CHECK(ledger.bytes_held_by(one) == 0);
}

TEST_CASE("who goes over a limit is told which, with the figures") {
  Ledger ledger({.bytes_max = 800 * mib, .address_bytes_max = 300 * mib, .address_keys_max = 5});
  const AccountId one = ledger.open_connection(address(1));
  const AccountId two = ledger.open_connection(address(2));
  const AccountId three = ledger.open_connection(address(3));
  ledger.charge(one, 300 * mib, 5);
  CHECK(ledger.objection(one, 0).empty());
  CHECK(ledger.objection(one, 1) == "its address holds 300.0 of the 300.0 MiB that it may");
  CHECK(ledger.objection(one, 0, 1) == "its address holds 5 of the 5 keys that it may");
  ledger.charge(two, 300 * mib);
  // The last eighth is for small things.
  CHECK(ledger.objection(three, 200 * mib) ==
        "all clients together hold 600.0 of the 700.0 MiB that they may");
  CHECK(ledger.objection(three, 100 * mib).empty());
  ledger.charge(three, 199 * mib);
  CHECK_FALSE(ledger.objection(three, mib).empty());
  CHECK(ledger.objection(three, 1000, 1).empty());
  ledger.credit(two, 300 * mib);
  CHECK(ledger.objection(three, 90 * mib).empty());
  CHECK(ledger.bytes_held() == 499 * mib);
}

TEST_CASE("nobody's page has no limits of its own") {
  Ledger ledger({.address_bytes_max = 10, .address_keys_max = 1});
  ledger.charge({}, 100, 5);
  CHECK(ledger.objection({}, 100, 5).empty());
}

TEST_CASE("a charge is in the books for as long as it lives, wherever it moves") {
  Ledger ledger;
  {
    Charge charge(ledger, {}, 100, true);
    Charge moved(std::move(charge));
    CHECK(ledger.bytes_held() == 100);
    moved.grow(20);
    CHECK(ledger.bytes_held() == 120);
    moved.resize(50);
    CHECK(ledger.bytes_held() == 50);
    CHECK(moved.is_of(ledger, {}));
    moved = Charge();
    CHECK(ledger.bytes_held() == 0);
  }
  CHECK(ledger.bytes_held() == 0);
}

TEST_CASE("what is buried is freed at once where nobody tends the graves") {
  struct Counting : Remains {
    explicit Counting(int& number) : alive(number) { ++alive; }
    ~Counting() override { --alive; }
    bool free_some(std::size_t&) override { return ++calls == 3; }
    int& alive;
    int calls = 0;
  };
  int alive = 0;
  Ledger ledger;
  ledger.bury(std::make_unique<Counting>(alive));
  CHECK(alive == 0);
  ledger.tend(true);
  ledger.bury(std::make_unique<Counting>(alive));
  ledger.free_some(1);
  ledger.free_some(1);
  CHECK(alive == 1);
  ledger.free_some(1);
  CHECK(alive == 0);
  ledger.bury(std::make_unique<Counting>(alive));
  ledger.tend(false);
  CHECK(alive == 0);
}

}  // namespace ledger_test
