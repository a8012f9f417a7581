// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The decimal text that ADD and BARRIER keep their counters in.

#include <cstdint>
#include <optional>
#include <string_view>

#include "proto/bounds.h"

namespace cpprun {

// More than a number may have: blanks, a sign, digits, and the one behind them. Who parses a
// counter needs no more of a value than this.
inline constexpr std::size_t counter_bytes_max =
    bounds::store_number_blanks_max + 1 + bounds::store_number_digits_max + 1;

// A number as C's stoll reads it, which is what upstream's ADD uses: blanks before and anything
// after the digits are tolerated; no digits at all, or too many, are not.
std::optional<std::int64_t> parse_counter(std::string_view text);

}  // namespace cpprun
