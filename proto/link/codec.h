// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One Message as bytes and back. A frame is a little-endian u32 (the length of what follows, in
// bytes) and one JSON object whose "say" names the message (docs/protocol.md §3). Unknown members
// are ignored, so that a newer peer may say more; a missing or ill-typed one refuses the frame.
//
// Before the first frame each side sends the preamble once: it tells the port's sniffer what this
// connection is, and the peer that it reached a cpprun and not something else.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "proto/link/message.h"
#include "proto/result.h"

namespace cpprun::link {

inline constexpr std::string_view preamble = "cpprun1\n";

// The whole frame, length included. Texts that would break the frame's bound are cut, aloud: a cut
// text ends in "…".
std::string encode(const Message& message);

struct Decoded {
  Message message;
  std::size_t bytes_consumed = 0;
};

// The first frame of `bytes`; nothing when it has not arrived in full. An error ends the link.
Result<std::optional<Decoded>> decode(std::string_view bytes);

}  // namespace cpprun::link
