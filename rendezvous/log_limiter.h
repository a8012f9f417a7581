// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Keeps a log readable when ten thousand clients are closed for the same reason. It is asked about
// lines that strangers cause, never about what happens to a job: of lines that differ only in their
// numbers, the first few of a window are let through, the rest is counted and
// told in one line when the window ends.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

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
