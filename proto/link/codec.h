// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Encodes and decodes one Message. A frame is a little-endian u32 (the length of the rest, in
// bytes) and one JSON object whose "say" names the message (docs/protocol.md §3). Unknown members
// are ignored, so that a newer peer may add some; a missing or mistyped one is an error.
//
// Before the first frame each side sends the preamble once. It identifies the connection to the
// port's sniffer, and assures the peer that it has reached a cpprun.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "proto/link/message.h"
#include "proto/result.h"

namespace cpprun::link {

inline constexpr std::string_view preamble = "cpprun1\n";

// The whole frame, including its length. Texts that would exceed the frame's limit are cut and then
// end in "…".
std::string encode(const Message& message);

struct Decoded {
  Message message;
  std::size_t bytes_consumed = 0;
};

// The first frame of `bytes`; empty if it is incomplete. An error ends the link.
Result<std::optional<Decoded>> decode(std::string_view bytes);

}  // namespace cpprun::link
