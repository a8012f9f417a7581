// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/console_messages.h"

#include <doctest/doctest.h>

namespace console_style_test {

using namespace cpprun;

TEST_CASE("colour is for terminals, unless their user or their kind refuses it") {
  const auto colour = [](bool terminal, const Environment& environment) {
    return console_style(terminal, environment, {}).colour;
  };
  CHECK(colour(true, {}));
  CHECK(colour(true, {{"TERM", "xterm"}}));
  CHECK(colour(true, {{"NO_COLOR", ""}}));
  CHECK_FALSE(colour(true, {{"NO_COLOR", "1"}}));
  CHECK_FALSE(colour(true, {{"TERM", "dumb"}}));
  CHECK_FALSE(colour(false, {{"TERM", "xterm"}}));
}

TEST_CASE("lines have their time where nobody looks on, or where that was asked for") {
  const auto timed = [](bool terminal, LogTimes times) {
    LogOptions logs;
    logs.times = times;
    return console_style(terminal, {}, logs).timed;
  };
  CHECK(timed(false, LogTimes::automatic));
  CHECK_FALSE(timed(true, LogTimes::automatic));
  CHECK(timed(true, LogTimes::always));
  CHECK_FALSE(timed(false, LogTimes::never));
}

TEST_CASE("what matters less than was asked for is not said") {
  LogOptions logs;
  logs.level = LogLevel::error;
  CHECK(console_style(true, {}, logs) ==
        ConsoleStyle{.terminal = true, .colour = true, .timed = false, .most = LogLevel::error});
}

}  // namespace console_style_test
