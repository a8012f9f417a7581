// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What `main` passes to code that must not access the process or its files: the environment as a
// value, and the function that reads a file. tests/tidy reports other accesses to the environment.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// The path of a program, as a shell finds it: an empty directory in PATH is the working directory.
inline std::optional<std::string> look_up_on_path(
    const std::string& name, const Environment& environment,
    const std::function<bool(const std::string& path)>& is_program) {
  const auto* path = find_variable(environment, "PATH");
  std::string_view rest =
      path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : std::string_view(*path);
  while (true) {
    const auto colon = rest.find(':');
    const auto directory = rest.substr(0, colon);
    std::string candidate = (directory.empty() ? "." : std::string(directory)) + "/" + name;
    if (is_program(candidate)) return candidate;
    if (colon == std::string_view::npos) return std::nullopt;
    rest = rest.substr(colon + 1);
  }
}

// Arguments or an environment in the form that execve() takes: pointers with a terminating null.
class ExecArray {
 public:
  explicit ExecArray(std::vector<std::string> texts) : texts_(std::move(texts)) { point(); }
  // "NAME=value"; the variables of `laid_over` have precedence.
  explicit ExecArray(const Environment& environment, const Environment& laid_over = {}) {
    texts_.reserve(environment.size() + laid_over.size());
    for (const auto& [name, value] : environment) {
      if (!laid_over.contains(name)) texts_.push_back(name + '=' + value);
    }
    for (const auto& [name, value] : laid_over) texts_.push_back(name + '=' + value);
    point();
  }
  ExecArray(const ExecArray&) = delete;
  ExecArray& operator=(const ExecArray&) = delete;
  char* const* get() const { return pointers_.data(); }

 private:
  void point() {
    pointers_.reserve(texts_.size() + 1);
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }

  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

// Returns the content of a file, for code that must not open files itself. `main` passes the real
// reader; tests use a map.
using TextFile = std::function<Result<std::string>(const std::string& path)>;

}  // namespace cpprun
