// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The events of a run, a line each, if wanted. The same seed gives the same lines, byte for byte.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "proto/clock.h"

namespace cpprun::sim {

class Trace {
 public:
  explicit Trace(bool wanted) : wanted_(wanted) {}

  template <class... Values>
  void line(TimePoint now, fmt::format_string<Values...> format, Values&&... values) {
    if (!wanted_) return;
    fmt::format_to(std::back_inserter(text_), "{:12.6f} ",
                   std::chrono::duration<double>(now.time_since_epoch()).count());
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
    text_ += '\n';
  }
  bool wanted() const { return wanted_; }
  const std::string& text() const { return text_; }

 private:
  bool wanted_;
  std::string text_;
};

}  // namespace cpprun::sim
