// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/lines.h"

#include <doctest/doctest.h>

namespace timed_lines_test {

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("only cpprun's own lines start with the time") {
  const WallTime time{std::chrono::sys_days{std::chrono::January / 5 / 2026} + 3h + 4min};
  CHECK(timed("cpprun: one\ncpprun: two\n", time) ==
        "2026-01-05T03:04:00.000Z cpprun: one\n2026-01-05T03:04:00.000Z cpprun: two\n");
  CHECK(timed("\x1b[31mcpprun: no\x1b[0m\n", time) ==
        "2026-01-05T03:04:00.000Z \x1b[31mcpprun: no\x1b[0m\n");
  CHECK(timed("====\nsays cpprun: x\n{\"event\": 1}\n", time) ==
        "====\nsays cpprun: x\n{\"event\": 1}\n");
  CHECK(timed("", time).empty());
  CHECK(timed("cpprun: without an end", time) == "2026-01-05T03:04:00.000Z cpprun: without an end");
}

}  // namespace timed_lines_test
