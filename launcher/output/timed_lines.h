// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The time in front of what cpprun itself says.

#include <string>
#include <string_view>

#include "proto/clock.h"

namespace cpprun {

// With the time in front of each line that begins with "cpprun: "; the other lines of a text, such
// as those of the report's box, are left as they are.
std::string timed(std::string_view text, WallTime now);

}  // namespace cpprun
