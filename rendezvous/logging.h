// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the logs of cpprun and cpprund share: levels, timestamps and the limit on repeated lines.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

// Each level includes those before it.
enum class LogLevel {
  error,    // the program cannot continue, or a job has failed
  warning,  // needs attention: a lost node, terminated workers, a failed write to a file
  info,     // normal operation
  debug,    // frequent events, such as a store client that disconnected
};

// Parses "error", "warning", "info" or "debug". Returns nothing for any other word.
std::optional<LogLevel> log_level_of(std::string_view name);
std::string_view name_of(LogLevel level);
// All levels, for use in a sentence.
inline constexpr std::string_view log_level_names = "error, warning, info or debug";
// The environment variable that both programs use when no flag sets the level.
inline constexpr const char* log_level_variable = "CPPRUN_LOG_LEVEL";

// The text of a message with its level in front: "warning: …". Only errors and warnings show
// theirs, and a text that already names one keeps it.
std::string with_level(LogLevel level, std::string_view text);

// The prefix of a log line: "2026-11-22T01:44:12.345Z ". It is UTC, so that lines from nodes in
// different time zones, or from before and after a clock change, sort in the order of events.
std::string log_time(WallTime time);

// Keeps the log readable when, for example, ten thousand clients are closed for the same reason.
// Use it only for lines that unauthenticated peers can cause, never for what happens to a job. Of
// the lines that differ only in their numbers, the first few in a window pass. The rest are counted
// and reported in one line when the window ends.
class LogLimiter {
 public:
  // Returns whether to write a line of this kind now; if not, the line is counted. `kind` is the
  // line without what identifies the instance. Digits in it are ignored. No line passes while the
  // log's reader is behind.
  bool pass(TimePoint now, std::string_view kind, bool is_reader_behind = false);

  // Returns the summary lines for the lines held back in each window that has ended.
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
