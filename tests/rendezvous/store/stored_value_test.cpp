// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/stored_value.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "proto/bounds.h"

namespace stored_value_test {

using namespace cpprun;

namespace {

std::string shown(const StoredValue& value) {
  Pieces pieces;
  value.show(pieces);
  return pieces.text().substr(8);
}

std::string long_text(std::size_t size, char first = 'a') {
  std::string text(size, first);
  for (std::size_t at = 0; at < size; at += 97) text[at] = static_cast<char>('b' + at % 7);
  return text;
}

}  // namespace

TEST_CASE("a short value is copied, a long one is referred to") {
  Ledger ledger;
  Origin origin;
  const StoredValue brief(ledger, origin, "short");
  const StoredValue lengthy(ledger, origin, long_text(5000));
  Pieces pieces;
  brief.show(pieces);
  CHECK(pieces.shared.empty());
  lengthy.show(pieces);
  REQUIRE(pieces.shared.size() == 1);
  CHECK(pieces.shared[0].slice.view().data() == lengthy.view()->data());
  CHECK(pieces.size() == 8 + 5 + 8 + 5000);
}

TEST_CASE("a value that is shown stays as it was, whatever becomes of it") {
  Ledger ledger;
  Origin origin;
  StoredValue value(ledger, origin, long_text(5000));
  Pieces before;
  value.show(before);
  const StoredValue snapshot = value.snapshot();
  value.append(ledger, origin, "and more");
  CHECK(shown(value) == long_text(5000) + "and more");
  value.assign(ledger, origin, "other");
  CHECK(before.text().substr(8) == long_text(5000));
  CHECK(shown(snapshot) == long_text(5000));
  CHECK(shown(value) == "other");
}

TEST_CASE("appending copies what is appended and nothing else") {
  Ledger ledger;
  Origin origin;
  constexpr std::size_t large = 64 * 1024 * 1024;
  StoredValue value(ledger, origin, std::string(large, 'v'));
  const char* const where = value.view()->data();
  for (int at = 0; at < 10'000; ++at) value.append(ledger, origin, "x");
  Pieces pieces;
  value.show(pieces);
  CHECK(pieces.shared.front().slice.view().data() == where);
  CHECK(pieces.shared.size() < 4);
  CHECK(value.size() == large + 10'000);
  CHECK(ledger.bytes_held() < large + 2 * 1024 * 1024);
}

TEST_CASE("a value grows from nothing through every size") {
  Ledger ledger;
  Origin origin;
  StoredValue value;
  std::string expected;
  for (std::size_t size = 1; size < 200'000; size = size * 3 + 1) {
    const std::string more = long_text(size, static_cast<char>('a' + size % 26));
    value.append(ledger, origin, more);
    expected += more;
    CHECK(value.size() == expected.size());
    CHECK(value.equals(expected));
    CHECK_FALSE(value.equals(expected + "x"));
    CHECK(value.beginning(60) == expected.substr(0, 60));
  }
  std::string other = expected;
  other.back() ^= 1;
  CHECK_FALSE(value.equals(other));
}

TEST_CASE("a large value keeps the memory in which it came") {
  Ledger ledger;
  constexpr std::size_t large = bounds::store_bulk_bytes_min * 3;
  auto* memory = static_cast<char*>(std::malloc(large));
  std::memset(memory, 'm', large);
  StoredValue value;
  {
    Origin origin;
    origin.memory = std::make_shared<Chunk>(ledger, AccountId{}, memory, large, large);
    value.assign(ledger, origin, origin.memory->view().substr(100));
    // A short part of it is copied, and does not keep the rest alive.
    StoredValue brief(ledger, origin, origin.memory->view().substr(0, 1000));
    CHECK(origin.memory.use_count() == 2);
  }
  CHECK(value.view()->data() == memory + 100);
  CHECK(ledger.bytes_held() < large + 1000);
  value = StoredValue();
  CHECK(ledger.bytes_held() == 0);
}

TEST_CASE("large memory goes back in pieces where somebody frees it") {
  Ledger ledger;
  ledger.tend(true);
  Origin origin;
  auto value = std::make_unique<StoredValue>(ledger, origin, std::string(50'000'000, 'v'));
  value.reset();
  CHECK(ledger.bytes_held() == 0);
  int turns = 0;
  for (; ledger.has_remains(); ++turns) ledger.free_some(1'000'000);
  CHECK(turns == 7);
}

}  // namespace stored_value_test
