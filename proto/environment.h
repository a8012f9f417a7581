// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The environment as a value. `main` reads it once and passes it on. tests/tidy reports other
// accesses to the process's environment.

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace cpprun {

using Environment = std::map<std::string, std::string, std::less<>>;

// From the array that `main` gets: "NAME=value" entries with a terminating null. An entry without
// '=' is legal and ignored.
Environment environment_of(char** variables);

// The value of `name`, or null; a variable that is set but empty counts as set.
inline const std::string* find_variable(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : &found->second;
}

}  // namespace cpprun
