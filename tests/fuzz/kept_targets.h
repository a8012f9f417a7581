// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// State that one cpprund passes to another or to itself, over a link or in a file (targets.h).

#include <string_view>

namespace cpprun::fuzz {

void standby_frames(std::string_view bytes);
void store_log(std::string_view bytes);
void log_file(std::string_view bytes);

}  // namespace cpprun::fuzz
