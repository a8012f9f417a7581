// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Texts of files as values: the function that reads one, and several texts as one.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace cpprun {

// What a file says, for code that opens none itself: `main` hands in the one that reads, a test a
// map.
using TextFile = std::function<Result<std::string>(const std::string& path)>;

// Texts as one, for the way from one process of ours to another: whatever is in them comes out as
// it went in, and of what was torn off in the middle what is whole.
std::string packed(const std::vector<std::string>& texts);
std::vector<std::string> unpacked(std::string_view bytes);

}  // namespace cpprun
