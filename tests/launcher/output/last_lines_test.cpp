// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/lines.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "launcher/output/bounds.h"

namespace last_lines_test {

using namespace cpprun;

TEST_CASE("the last lines are limited in number and in bytes") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  const auto lines = last_lines_of(text);
  CHECK(lines.size() == bounds::last_lines_max);
  CHECK(lines.back() == "line 999");

  const auto long_lines =
      last_lines_of(std::string(10 * bounds::last_lines_bytes_max, 'x') + "\nend");
  CHECK(long_lines.back() == "end");
  CHECK(long_lines.front().size() <= bounds::last_lines_bytes_max);
}

TEST_CASE("progress bars and empty lines at the end are dropped from the last lines") {
  CHECK(last_lines_of("10%\r20%\r30%\rdone\nError: no\n\n\n") ==
        std::vector<std::string>{"done", "Error: no"});
}

}  // namespace last_lines_test
