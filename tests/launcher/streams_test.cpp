// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/config.h"

#include <doctest/doctest.h>

#include <string>

namespace streams_test {

using namespace cpprun;

TEST_CASE("one digit applies to all ranks") {
  CHECK(parse_stream_choices("0")->any() == false);
  CHECK(parse_stream_choices("1")->of(7) == StreamChoice{true, false});
  CHECK(parse_stream_choices("2")->of(0) == StreamChoice{false, true});
  CHECK(parse_stream_choices("3")->of(0) == StreamChoice{true, true});
  CHECK(parse_stream_choices(" 3 ")->of(0) == StreamChoice{true, true});
}

TEST_CASE("a list applies to the ranks it names, also beyond 9") {
  const auto choices = parse_stream_choices("0:1,12:3");
  REQUIRE(choices.has_value());
  CHECK(choices->of(0) == StreamChoice{true, false});
  CHECK(choices->of(1) == StreamChoice{});
  CHECK(choices->of(12) == StreamChoice{true, true});
  CHECK(choices->any());
  CHECK_FALSE(parse_stream_choices("0:0,1:0")->any());
}

TEST_CASE("values that torchrun rejects are rejected, with the valid forms") {
  for (const std::string bad :
       {"0:1,", "11", "0:1,1", "1,0:1", "", "4", "0:4", "a:1", ":1", "-1:1"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_stream_choices(bad).has_value());
  }
  CHECK(parse_stream_choices("11").error().reason ==
        "\"11\" is neither one digit (0 none, 1 stdout, 2 stderr, 3 both) nor a list such as "
        "0:1,1:3 (local rank, then digit)");
  CHECK(parse_stream_choices("0:1,0:2").error().reason == "\"0:1,0:2\" lists local rank 0 twice");
}

}  // namespace streams_test
