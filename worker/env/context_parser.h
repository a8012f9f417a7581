// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Parses a Context from a given environment, so that tests can pass any environment.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/environment.h"
#include "proto/result.h"
#include "worker/env/context.h"

namespace cpprun {

// Reports all errors at once, each with the variable, its value and what is valid.
Result<Context> parse_context(const Environment& environment);

// Reads numbers and texts from an environment and collects the errors, so that a user sees all of
// them at once.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(std::string_view name) const;
  // Empty if the variable is not set.
  std::string text(std::string_view name) const;
  // Absent if not set. Absent with an error if not a whole number from `least` to `most`.
  std::optional<int> number(std::string_view name, int least, int most);
  int number_or(std::string_view name, int least, int most, int fallback);
  // Like number(), but a missing variable is an error too; `hint` says how to set it.
  int required(std::string_view name, int least, int most, std::string_view hint);

  void add_error(std::string error);
  const std::vector<std::string>& diagnostics() const { return diagnostics_; }

 private:
  const Environment& environment_;
  std::vector<std::string> diagnostics_;
};

}  // namespace cpprun
