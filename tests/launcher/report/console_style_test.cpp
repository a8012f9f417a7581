// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/console_messages.h"

#include <doctest/doctest.h>

namespace console_style_test {

using namespace cpprun;

TEST_CASE("colour is for terminals, unless the user or the terminal type disables it") {
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

TEST_CASE("lines have a time without a terminal, or if that was requested") {
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

TEST_CASE("messages below the log level are not shown") {
  LogOptions logs;
  logs.level = LogLevel::error;
  CHECK(console_style(true, {}, logs) ==
        ConsoleStyle{.terminal = true, .colour = true, .timed = false, .most = LogLevel::error});
}

}  // namespace console_style_test
