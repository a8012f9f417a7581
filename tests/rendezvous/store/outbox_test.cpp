// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/session.h"

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <string>

namespace outbox_test {

using namespace cpprun;

namespace {

// Takes everything, at most that many bytes at a time.
std::string taken(Outbox& outbox, std::size_t bytes_max, std::size_t pieces_max = 4) {
  std::string all;
  std::array<std::string_view, 64> room;
  while (!outbox.empty()) {
    std::size_t count = 0;
    for (const std::string_view piece : outbox.next(std::span(room).first(pieces_max), bytes_max)) {
      all.append(piece);
      count += piece.size();
    }
    REQUIRE(count > 0);
    REQUIRE(count <= bytes_max);
    outbox.drop_front(count);
  }
  return all;
}

IoSlices pieces_of(MemoryAccounting& accounting, const std::string& before,
                   const std::string& value, const std::string& behind) {
  auto chunk = std::make_shared<Chunk>(accounting, AccountId{}, value.size());
  chunk->write(value);
  return {before + behind, {{before.size(), {chunk, 0, value.size()}}}};
}

}  // namespace

TEST_CASE("copied and referenced bytes come out in order") {
  MemoryAccounting accounting;
  for (const std::size_t at_once : {1, 2, 3, 7, 100}) {
    CAPTURE(at_once);
    Outbox outbox;
    outbox.append("one ");
    outbox.append(pieces_of(accounting, "two ", "THREE ", "four "));
    outbox.append(pieces_of(accounting, "", "FIVE ", ""));
    outbox.append(pieces_of(accounting, "", "SIX ", "seven "));
    outbox.append("eight");
    CHECK(outbox.size() == 39);
    CHECK(taken(outbox, at_once) == "one two THREE four FIVE SIX seven eight");
    CHECK(outbox.size() == 0);
  }
}

TEST_CASE("bytes that are added while others are taken come after them") {
  MemoryAccounting accounting;
  Outbox outbox;
  outbox.append(pieces_of(accounting, "ab", "CD", "ef"));
  outbox.drop_front(3);
  outbox.append(pieces_of(accounting, "gh", "IJ", ""));
  CHECK(taken(outbox, 100) == "DefghIJ");
}

TEST_CASE("a value that is added many times is held in memory once, and released when it is sent") {
  MemoryAccounting accounting;
  Outbox outbox;
  {
    const IoSlices pieces = pieces_of(accounting, "", std::string(1'000'000, 'v'), "");
    for (int at = 0; at < 100; ++at) outbox.append(pieces);
  }
  CHECK(outbox.size() == 100'000'000);
  CHECK(outbox.own_bytes() < 10'000);
  CHECK(accounting.bytes_held() < 1'100'000);
  CHECK(taken(outbox, 1'000'000, 64).size() == 100'000'000);
  CHECK(accounting.bytes_held() == 0);
}

}  // namespace outbox_test
