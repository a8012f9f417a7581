// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The environment as a value. `main` takes it once; whoever needs a variable is handed the map.
// tests/tidy finds everybody else who asks the process for it.

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace cpprun {

using Environment = std::map<std::string, std::string, std::less<>>;

// Of the variables that a process was started with, as `main` finds them: "NAME=value" each, and a
// null behind the last. An entry without '=' is legal and means nothing.
Environment environment_of(char** variables);

// The value of `name`, or nothing; a variable that is set but empty counts as set.
inline const std::string* find_variable(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : &found->second;
}

}  // namespace cpprun
