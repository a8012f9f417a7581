// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/state_file.h"

#include <doctest/doctest.h>

#include <string>

namespace log_file_test {

using namespace cpprun;

namespace {

std::string file_of(const std::string& first, const std::string& second) {
  return log_file_head(RoundNumber{7}, false, "b") + log_chunk(LogChunk::bytes, first) +
         log_chunk(LogChunk::whole, {}) + log_chunk(LogChunk::bytes, second);
}

}  // namespace

TEST_CASE("a log is read as it was written, with its completeness and its end") {
  const auto open = read_log_file(file_of("ab", "cd"));
  REQUIRE(open);
  CHECK(open->round == RoundNumber{7});
  CHECK(open->boot == "b");
  CHECK(open->bytes == "abcd");
  CHECK(open->is_whole);
  CHECK_FALSE(open->has_end);
  CHECK_FALSE(open->is_synced);
  CHECK(open->size == file_of("ab", "cd").size());
  const auto ended = read_log_file(file_of("ab", "cd") + log_chunk(LogChunk::end, {}));
  REQUIRE(ended);
  CHECK(ended->has_end);
  const auto half =
      read_log_file(log_file_head(RoundNumber{1}, true, "b") + log_chunk(LogChunk::bytes, "image"));
  REQUIRE(half);
  CHECK(half->is_synced);
  CHECK_FALSE(half->is_whole);
}

TEST_CASE("a log that continues after an end mark has no end") {
  const auto log = read_log_file(file_of("ab", "cd") + log_chunk(LogChunk::end, {}) +
                                 log_chunk(LogChunk::bytes, "ef"));
  REQUIRE(log);
  CHECK_FALSE(log->has_end);
  CHECK(log->bytes == "abcdef");
}

TEST_CASE("a torn tail is cut off, and everything before it is kept") {
  const std::string file = file_of("first", "second");
  const std::size_t last = file.size() - log_chunk(LogChunk::bytes, "second").size();
  for (std::size_t size = last + 1; size < file.size(); ++size) {
    const auto log = read_log_file(file.substr(0, size));
    REQUIRE(log);
    CHECK(log->bytes == "first");
    CHECK(log->size == last);
    CHECK_FALSE(log->has_end);
  }
  // The length is intact, but the content is not.
  std::string torn = file;
  torn.back() = '\0';
  const auto log = read_log_file(torn);
  REQUIRE(log);
  CHECK(log->size == last);
}

TEST_CASE("damage in the middle is rejected with its position and the remaining size") {
  std::string file = file_of("first", "second");
  const std::size_t at = log_file_head(RoundNumber{7}, false, "b").size();
  file[at + 9] ^= 1;
  const auto log = read_log_file(file);
  REQUIRE_FALSE(log);
  CHECK(log.error().clause == "is damaged: wrong checksum at byte 20, and 38 bytes follow");
  CHECK_FALSE(log.error().is_later);
}

TEST_CASE("a file that is not a log, or has a later version, is rejected") {
  CHECK(read_log_file("").error().clause == "is damaged: invalid first line");
  CHECK(read_log_file("cpprund-log x").error().clause ==
        "is damaged: no version in the first line");
  CHECK(read_log_file("cpprund-log 1 5 7 b\n").error().clause ==
        "is damaged: the first line is incomplete");
  const auto later = read_log_file("cpprund-log 2 5 0 b\n");
  REQUIRE_FALSE(later);
  CHECK(later.error().is_later);
  CHECK(later.error().clause == "is of version 2, but this cpprund reads version 1");
}

}  // namespace log_file_test
