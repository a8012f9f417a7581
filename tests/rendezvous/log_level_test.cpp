// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/logging.h"

#include <doctest/doctest.h>

#include <chrono>

namespace log_level_test {

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("a level is found only by its name") {
  for (const auto level : {LogLevel::error, LogLevel::warning, LogLevel::info, LogLevel::debug}) {
    CHECK(log_level_of(name_of(level)) == level);
    CHECK(log_level_names.find(name_of(level)) != std::string_view::npos);
  }
  CHECK_FALSE(log_level_of("INFO"));
  CHECK_FALSE(log_level_of(""));
  CHECK_FALSE(log_level_of("2"));
}

TEST_CASE("a log line starts with the UTC time") {
  const WallTime time{std::chrono::sys_days{std::chrono::January / 5 / 2026} + 3h + 4min + 5s +
                      67ms + 999us};
  CHECK(log_time(time) == "2026-01-05T03:04:05.067Z ");
  CHECK(log_time(WallTime{}) == "1970-01-01T00:00:00.000Z ");
}

}  // namespace log_level_test
