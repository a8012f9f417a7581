// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What comes through a link behind its secret, and what proves that somebody holds it (targets.h).

#include <string_view>

namespace cpprun::fuzz {

void stream_frames(std::string_view bytes);
void secret_file(std::string_view bytes);
void token_text(std::string_view bytes);

}  // namespace cpprun::fuzz
