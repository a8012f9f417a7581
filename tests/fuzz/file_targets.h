// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The contents of files that a worker or another program has written (targets.h).

#include <string_view>

namespace cpprun::fuzz {

void error_file(std::string_view bytes);
void heartbeat_file(std::string_view bytes);
void safetensors_head(std::string_view bytes);
void pickle_file(std::string_view bytes);

}  // namespace cpprun::fuzz
