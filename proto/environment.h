// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What `main` passes to code that must not access the process or its files: the environment as a
// value, and the function that reads a file. tests/tidy reports other accesses to the environment.

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

using Environment = std::map<std::string, std::string, std::less<>>;

// From the array that `main` gets: "NAME=value" entries with a terminating null. An entry without
// '=' is legal and ignored.
inline Environment environment_of(char** variables) {
  Environment environment;
  for (char** each = variables; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text(*each);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

// The value of `name`, or null; a variable that is set but empty counts as set.
inline const std::string* find_variable(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : &found->second;
}

// Returns the content of a file, for code that must not open files itself. `main` passes the real
// reader; tests use a map.
using TextFile = std::function<Result<std::string>(const std::string& path)>;

}  // namespace cpprun
