// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the logs of cpprun and cpprund have in common: the levels, the time in front of a line, and
// the limit on lines that repeat.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

// Told at a level is what is told at those before it, and more.
enum class LogLevel {
  error,    // it cannot go on, or a job has failed
  warning,  // somebody should look: a node is lost, workers are ended, a file cannot be written
  info,     // what happens in the ordinary course of things
  debug,    // what happens all the time, too: a client of the store that simply left
};

// "error", "warning", "info" or "debug"; nothing for any other word.
std::optional<LogLevel> log_level_of(std::string_view name);
std::string_view name_of(LogLevel level);
// Of all of them, for a sentence: "error, warning, info or debug".
inline constexpr std::string_view log_level_names = "error, warning, info or debug";
// The variable that both programs read where no flag says otherwise.
inline constexpr const char* log_level_variable = "CPPRUN_LOG_LEVEL";

// What stands in front of a line: "2026-11-22T01:44:12.345Z ". The time is universal: the lines of
// nodes that stand in different places, or in summer and winter, sort as they happened.
std::string log_time(WallTime time);

// Keeps a log readable when ten thousand clients are closed for the same reason. It is asked about
// lines that strangers cause, never about what happens to a job: of lines that differ only in their
// numbers, the first few of a window are let through, the rest is counted and
// told in one line when the window ends.
class LogLimiter {
 public:
  // May a line of that kind be written now? `kind` is the line without what names an instance;
  // digits in it do not count. Where its reader is behind, no line may: it is counted.
  bool pass(TimePoint now, std::string_view kind, bool is_reader_behind = false);

  // The lines that stand for those held back, of every window that is over.
  std::vector<std::string> advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

 private:
  struct Window {
    TimePoint until;
    std::size_t passed = 0;
    std::size_t held_back = 0;
    std::string example;
  };
  std::map<std::string, Window, std::less<>> windows_;
};

}  // namespace cpprun
