// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/text.h"

#include <doctest/doctest.h>

namespace durations_test {

using namespace cpprun;

TEST_CASE("a duration is read in common units") {
  CHECK(parse_duration("90s") == 90);
  CHECK(parse_duration("90") == 90);
  CHECK(parse_duration("45m") == 45 * 60);
  CHECK(parse_duration("2h") == 2 * 3600);
  CHECK(parse_duration("1h30m") == 5400);
  CHECK(parse_duration("2d12h") == 60 * 3600);
}

TEST_CASE("an invalid duration is rejected with the valid forms") {
  for (const auto* wrong : {"", "h", "0", "0h", "-1h", "1.5h", "2 h", "2w", "30m1h", "1h1h", "1h30",
                            "400d", "99999999999999999999h"}) {
    CAPTURE(wrong);
    const auto read = parse_duration(wrong);
    REQUIRE_FALSE(read);
    CHECK(read.error().reason.find("such as 90s, 45m, 2h, 1h30m or 2d") != std::string::npos);
  }
}

TEST_CASE("a duration is printed in two units at most") {
  CHECK(duration_text(0.44) == "0.4 s");
  CHECK(duration_text(12.9) == "12 s");
  CHECK(duration_text(200) == "3 min");
  CHECK(duration_text(2 * 3600 + 5 * 60 + 9) == "2 h 5 min");
  CHECK(duration_text(4 * 86400 + 3 * 3600) == "4 d 3 h");
  CHECK(duration_text(-5) == "0 s");
}

}  // namespace durations_test
