// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the workers of these tests are told: by their environment, and by the words after their
// name.

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

namespace cpprun::integration {

// Empty where it is not set.
inline std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// 0 for what is none.
inline long number(std::string_view text) {
  long value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace cpprun::integration
