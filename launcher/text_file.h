// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The type of the function that reads a file.

#include <functional>
#include <string>

#include "proto/result.h"

namespace cpprun {

// Returns the content of a file, for code that must not open files itself. `main` passes the real
// reader; tests use a map.
using TextFile = std::function<Result<std::string>(const std::string& path)>;

}  // namespace cpprun
