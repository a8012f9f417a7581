// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What people type on a command line: sizes with units, and names with slips.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

// A number of bytes: digits, and a unit that is a power of 1024 whatever its case: b, k, kb, kib,
// and so on up to e. Nothing where it does not fit.
std::optional<std::uint64_t> byte_size(std::string_view text);

// The name that was probably meant by what was typed; nullptr: none is near. "_" is "-".
const std::string* nearest(std::string_view typed, const std::vector<std::string>& names);

}  // namespace cpprun
