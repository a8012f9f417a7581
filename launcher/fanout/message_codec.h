// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Messages as bytes: a length, a kind, and the members in order. Texts are bytes of any kind, as
// arguments and variables are, so nothing is quoted and nothing can be torn.

#include <optional>
#include <string>
#include <string_view>

#include "launcher/fanout/message.h"
#include "proto/result.h"

namespace cpprun::fanout {

// A megabyte of environment, and a hundred thousand hosts.
inline constexpr std::size_t message_bytes_max = 16 * 1024 * 1024;

std::string encode(const Down& message);
std::string encode(const Up& message);

// Takes the first whole message off `bytes`; nothing while it has not all arrived. Fails for what
// is no message: then nothing that follows is one.
Result<std::optional<Down>> take_down(std::string& bytes);
Result<std::optional<Up>> take_up(std::string& bytes);

}  // namespace cpprun::fanout
