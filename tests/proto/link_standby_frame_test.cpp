// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <string>

#include "proto/link/binary_frame.h"
#include "proto/link/bounds.h"

namespace link_standby_frame_test {

using namespace cpprun;
using namespace cpprun::link;
using Kind = StandbyRecord::Kind;

TEST_CASE("a frame between cppruns survives a round trip") {
  const std::string bytes(standby_frame_room("job"), 'x');
  const StandbyRecord said{.kind = Kind::log,
                           .number = std::uint64_t{1} << 60,
                           .round = RoundNumber{7},
                           .job = "job",
                           .bytes = bytes};
  const std::string frame = standby_frame(said);
  const auto first = first_frame(frame);
  REQUIRE(first);
  REQUIRE(*first);
  CHECK((*first)->size() == bounds::link_frame_bytes_max);
  CHECK(is_standby_frame(**first));
  CHECK_FALSE(carries_streams(**first));
  const auto heard = read_standby_frame(**first);
  REQUIRE(heard);
  CHECK(*heard == said);
  const std::string small = standby_frame({.kind = Kind::has, .number = 3});
  CHECK(*read_standby_frame(std::string_view(small).substr(4)) ==
        StandbyRecord{.kind = Kind::has, .number = 3});
}

TEST_CASE("an invalid frame between cppruns is reported") {
  const auto reason = [](std::string_view frame) {
    const auto read = read_standby_frame(frame);
    return read ? std::string() : read.error().reason;
  };
  const std::string frame = standby_frame({.kind = Kind::log, .job = "job"}).substr(4);
  CHECK(reason(frame).empty());
  CHECK(reason(std::string_view(frame).substr(0, frame.size() - 1)) ==
        "a replication frame is truncated");
  CHECK(reason(std::string_view(frame).substr(0, 5)) == "a frame is not a replication frame");
  CHECK(reason("") == "a frame is not a replication frame");
  std::string unknown = frame;
  unknown[1] = 11;
  CHECK(reason(unknown) == "a replication frame has the unknown kind 11");
}

}  // namespace link_standby_frame_test
