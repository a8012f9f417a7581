// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Texts as one, for the way from one process of ours to another: whatever is in them comes out as
// it went in, and of what was torn off in the middle what is whole.

#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

std::string packed(const std::vector<std::string>& texts);
std::vector<std::string> unpacked(std::string_view bytes);

}  // namespace cpprun
