// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Data of a link behind its secret, and the proofs of that secret (targets.h).

#include <string_view>

namespace cpprun::fuzz {

void stream_frames(std::string_view bytes);
void secret_file(std::string_view bytes);
void token_text(std::string_view bytes);

}  // namespace cpprun::fuzz
