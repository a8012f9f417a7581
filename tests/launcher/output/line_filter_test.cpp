// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/lines.h"

#include <doctest/doctest.h>

namespace line_filter_test {

using namespace cpprun;

TEST_CASE("a line with any of the words is written to the filter, with its prefix") {
  const std::vector<std::string> words = {"apple", "pear, ripe"};
  CHECK(duplicate_of({.text = "an apple\n"}, "[r0]:", words) == "[r0]:an apple\n");
  CHECK(duplicate_of({.text = "a pear, ripe\n"}, "[r1]:", words) == "[r1]:a pear, ripe\n");
  CHECK(duplicate_of({.text = "a pear\n"}, "[r1]:", words).empty());
  CHECK(duplicate_of({.text = "an apple\n"}, "", {}).empty());
}

TEST_CASE("a line without a newline gets one, so that workers' lines never mix") {
  CHECK(duplicate_of({.text = "apple 10%\r", .ends_line = false}, "0 ", {"apple"}) ==
        "0 apple 10%\n");
  CHECK(duplicate_of({.text = "apple", .ends_line = false}, "0 ", {"apple"}) == "0 apple\n");
}

}  // namespace line_filter_test
