// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/stored_value.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "rendezvous/store/bounds.h"

namespace stored_value_test {

using namespace cpprun;

namespace {

std::string shown(const StoredValue& value) {
  IoSlices pieces;
  value.show(pieces);
  return pieces.text().substr(8);
}

std::string long_text(std::size_t size, char first = 'a') {
  std::string text(size, first);
  for (std::size_t at = 0; at < size; at += 97) text[at] = static_cast<char>('b' + at % 7);
  return text;
}

}  // namespace

TEST_CASE("a short value is copied, and a long one is referenced") {
  MemoryAccounting accounting;
  Origin origin;
  const StoredValue brief(accounting, origin, "short");
  const StoredValue lengthy(accounting, origin, long_text(5000));
  IoSlices pieces;
  brief.show(pieces);
  CHECK(pieces.shared.empty());
  lengthy.show(pieces);
  REQUIRE(pieces.shared.size() == 1);
  CHECK(pieces.shared[0].slice.view().data() == lengthy.view()->data());
  CHECK(pieces.size() == 8 + 5 + 8 + 5000);
}

TEST_CASE("a value that is being sent does not change, whatever happens to the key") {
  MemoryAccounting accounting;
  Origin origin;
  StoredValue value(accounting, origin, long_text(5000));
  IoSlices before;
  value.show(before);
  const StoredValue snapshot = value.snapshot();
  value.append(accounting, origin, "and more");
  CHECK(shown(value) == long_text(5000) + "and more");
  value.assign(accounting, origin, "other");
  CHECK(before.text().substr(8) == long_text(5000));
  CHECK(shown(snapshot) == long_text(5000));
  CHECK(shown(value) == "other");
}

TEST_CASE("appending copies only the appended bytes") {
  MemoryAccounting accounting;
  Origin origin;
  constexpr std::size_t large = 64 * 1024 * 1024;
  StoredValue value(accounting, origin, std::string(large, 'v'));
  const char* const where = value.view()->data();
  for (int at = 0; at < 10'000; ++at) value.append(accounting, origin, "x");
  IoSlices pieces;
  value.show(pieces);
  CHECK(pieces.shared.front().slice.view().data() == where);
  CHECK(pieces.shared.size() < 4);
  CHECK(value.size() == large + 10'000);
  CHECK(accounting.bytes_held() < large + 2 * 1024 * 1024);
}

TEST_CASE("a value grows from nothing through every size") {
  MemoryAccounting accounting;
  Origin origin;
  StoredValue value;
  std::string expected;
  for (std::size_t size = 1; size < 200'000; size = size * 3 + 1) {
    const std::string more = long_text(size, static_cast<char>('a' + size % 26));
    value.append(accounting, origin, more);
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

TEST_CASE("a large value keeps the buffer in which it arrived") {
  MemoryAccounting accounting;
  constexpr std::size_t large = bounds::store_bulk_bytes_min * 3;
  auto* memory = static_cast<char*>(std::malloc(large));
  std::memset(memory, 'm', large);
  StoredValue value;
  {
    Origin origin;
    origin.memory = std::make_shared<Chunk>(accounting, AccountId{}, memory, large, large);
    value.assign(accounting, origin, origin.memory->view().substr(100));
    // A short part of it is copied, and does not keep the rest alive.
    StoredValue brief(accounting, origin, origin.memory->view().substr(0, 1000));
    CHECK(origin.memory.use_count() == 2);
  }
  CHECK(value.view()->data() == memory + 100);
  CHECK(accounting.bytes_held() < large + 1000);
  value = StoredValue();
  CHECK(accounting.bytes_held() == 0);
}

TEST_CASE("a large buffer is freed in pieces if freeing is deferred") {
  MemoryAccounting accounting;
  accounting.tend(true);
  Origin origin;
  auto value = std::make_unique<StoredValue>(accounting, origin, std::string(50'000'000, 'v'));
  value.reset();
  CHECK(accounting.bytes_held() == 0);
  int turns = 0;
  for (; accounting.has_deferred(); ++turns) accounting.free_some(1'000'000);
  CHECK(turns == 7);
}

}  // namespace stored_value_test
