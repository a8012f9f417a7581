// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads numbers and words out of an environment and collects what is wrong with them, so that a
// user learns of all diagnostics in one go.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/env/context_parser.h"

namespace cpprun {

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(std::string_view name) const;
  // Empty if it is not set.
  std::string text(std::string_view name) const;
  // Absent if it is not set, or not a whole number from `least` to `most`: then it is a mistake.
  std::optional<int> number(std::string_view name, int least, int most);
  int number_or(std::string_view name, int least, int most, int fallback);
  // Like number(), but being absent is a mistake too; `cure` says what to do about it.
  int required(std::string_view name, int least, int most, std::string_view cure);

  void add_mistake(std::string mistake);
  const std::vector<std::string>& diagnostics() const { return diagnostics_; }

 private:
  const Environment& environment_;
  std::vector<std::string> diagnostics_;
};

}  // namespace cpprun
