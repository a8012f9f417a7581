// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// File contents as values: the type of the function that reads a file, and the serialization of
// several strings into one.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace cpprun {

// Returns the content of a file, for code that must not open files itself. `main` passes the real
// reader; tests use a map.
using TextFile = std::function<Result<std::string>(const std::string& path)>;

// Serializes strings, for messages between our own processes. The strings may hold any bytes. Of
// truncated data, `unpacked` returns the strings that are complete.
std::string packed(const std::vector<std::string>& texts);
std::vector<std::string> unpacked(std::string_view bytes);

}  // namespace cpprun
