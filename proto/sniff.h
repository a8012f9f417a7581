// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One port serves all protocols: the first bytes of a connection identify it. In all of these
// protocols the client sends first, so the server sends nothing before it knows.

#include <string_view>

namespace cpprun {

enum class Protocol {
  undecided,  // more bytes are needed
  store,      // a PyTorch store client, in any dialect
  link,       // an agent
  http,       // a browser or a scraper
  secure,     // TLS: an agent with a secret, or another client
  unknown,    // anything else, such as a port scanner
};

// The first bytes that an agent sends on its link.
inline constexpr std::string_view link_preamble = "cpprun1\n";

Protocol sniff(std::string_view first_bytes);

// Names the bytes for the log if sniff() calls them unknown, http or secure: "a TLS handshake", "an
// SSH client" …
std::string_view describe(std::string_view first_bytes);

}  // namespace cpprun
