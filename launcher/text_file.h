// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a file says, for code that opens none itself: `main` hands in the one that reads, a test a
// map.

#include <functional>
#include <string>

#include "proto/result.h"

namespace cpprun {

using TextFile = std::function<Result<std::string>(const std::string& path)>;

}  // namespace cpprun
