// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/binary_frame.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "proto/link/bounds.h"

namespace link_stream_frame_test {

using namespace cpprun;
using namespace cpprun::link;
using Kind = StreamRecord::Kind;

namespace {

const std::vector<StreamRecord> all_kinds = {
    {.kind = Kind::open, .stream = StreamId{1}},
    {.kind = Kind::bytes, .stream = StreamId{1}, .place = 0, .bytes = "\x03 get"},
    {.kind = Kind::taken, .stream = StreamId{7}, .place = 1ULL << 40},
    {.kind = Kind::bytes, .stream = StreamId{2}, .place = 9, .bytes = ""},
    {.kind = Kind::closed, .stream = StreamId{2}, .place = 9},
    {.kind = Kind::unknown, .stream = StreamId{0xffffffff}},
};

std::string frame_of(const std::vector<StreamRecord>& records, RoundNumber round = {3}) {
  StreamFrameWriter writer(round);
  for (const StreamRecord& record : records) writer.add(record);
  return writer.finish();
}

// Why it cannot be decoded; empty if it can.
std::string trouble_with(std::string_view frame) {
  StreamFrameReader reader(frame);
  const auto round = reader.round();
  if (!round) return round.error().reason;
  while (true) {
    const auto record = reader.next();
    if (!record) return record.error().reason;
    if (!*record) return {};
  }
}

}  // namespace

TEST_CASE("a stream frame survives a round trip") {
  const std::string bytes = frame_of(all_kinds);
  const auto frame = first_frame(bytes);
  REQUIRE(frame);
  REQUIRE(*frame);
  CHECK((*frame)->size() == bytes.size() - 4);
  CHECK(carries_streams(**frame));
  StreamFrameReader reader(**frame);
  CHECK(reader.round() == RoundNumber{3});
  for (const StreamRecord& expected : all_kinds) {
    const auto record = reader.next();
    REQUIRE(record);
    REQUIRE(*record);
    CHECK(**record == expected);
  }
  CHECK(reader.next()->has_value() == false);
}

TEST_CASE("an incomplete frame is waited for, and a frame that is too long is rejected") {
  const std::string bytes = frame_of(all_kinds);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK(first_frame(std::string_view(bytes).substr(0, size))->has_value() == false);
  }
  const std::string huge = std::string("\xff\xff\xff\x7f", 4);
  CHECK(first_frame(huge).error().reason ==
        "a link frame has 2147483647 bytes; the maximum is 32768");
}

TEST_CASE("a truncated or invalid stream frame is rejected") {
  const std::string bytes = frame_of(all_kinds).substr(4);
  std::size_t torn = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string trouble = trouble_with(std::string_view(bytes).substr(0, size));
    if (trouble == "a link frame has a truncated stream record") ++torn;
  }
  // Cut between two records, or before the mark, it is not truncated.
  CHECK(torn == bytes.size() - 1 - all_kinds.size());
  CHECK(trouble_with("{\"say\":\"join\"}") == "a link frame has no streams");
  std::string strange = frame_of({all_kinds[0]}).substr(4);
  strange[5] = 9;
  CHECK(trouble_with(strange) == "a link frame has a record of the unknown kind 9");
  strange[5] = 0;
  CHECK(trouble_with(strange) == "a link frame has a record of the unknown kind 0");
}

TEST_CASE("a frame filled to capacity stays within its limit") {
  StreamFrameWriter writer({1});
  CHECK(writer.empty());
  const std::string many(writer.room(), 'x');
  writer.add({.kind = Kind::bytes, .stream = StreamId{1}, .place = 0, .bytes = many});
  CHECK_FALSE(writer.empty());
  CHECK(writer.room() == 0);
  CHECK_FALSE(writer.has_room_for_record());
  const std::string frame = writer.finish();
  CHECK(frame.size() == 4 + bounds::link_frame_bytes_max);
  CHECK(trouble_with(frame.substr(4)).empty());
}

}  // namespace link_stream_frame_test
