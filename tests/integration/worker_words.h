// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The inputs of the workers of these tests: their environment and their arguments.

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

namespace cpprun::integration {

// Empty if it is not set.
inline std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// 0 if it is not a number.
inline long number(std::string_view text) {
  long value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace cpprun::integration
