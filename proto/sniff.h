// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One port for everything: the first bytes of a connection say what it speaks. Only the client
// speaks first in any of these protocols, so nothing is sent before this is known.

#include <string_view>

namespace cpprun {

enum class Protocol {
  undecided,  // more bytes are needed
  store,      // a PyTorch store client, in any dialect
  link,       // an agent of ours
  http,       // a browser or a scraper
  secure,     // TLS: an agent that holds a secret, or anybody's
  unknown,    // anything else: a port scanner, a client of something else
};

// What an agent sends first on its link.
inline constexpr std::string_view link_preamble = "cpprun1\n";

Protocol sniff(std::string_view first_bytes);

// For the log, of bytes that sniff() calls unknown, http or secure: "a TLS handshake", "an SSH
// client" …
std::string_view describe(std::string_view first_bytes);

}  // namespace cpprun
