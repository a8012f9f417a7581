// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Lengths of time as people write and read them.

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

// "2h", "1h30m", "45m", "2d", "90s" or "90": so many seconds, at least one and at most a year.
Result<std::int64_t> parse_duration(std::string_view text);

// "0.4 s", "12 s", "3 min", "2 h 5 min", "4 d 3 h".
std::string duration_text(double seconds);

}  // namespace cpprun
