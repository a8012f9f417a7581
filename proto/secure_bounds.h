// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Limits of links on which both sides prove that they hold a secret; all others are in bounds.h.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// What OpenSSL keeps of an established connection that is idle: measured, and rounded up.
inline constexpr std::size_t secure_channel_bytes = 16 * 1024;
// What it keeps besides while a record has arrived in part: the largest one, and its header.
inline constexpr std::size_t secure_record_bytes = 17 * 1024;
// Who has come and has not proven yet that it holds the secret: 16 MiB of them. An agent's proof
// takes one round trip, so ten thousand that come at once are let in a few hundred at a time.
inline constexpr std::size_t handshakes_max = 1024;
// What may come of it until then. A handshake has some 300 bytes, and the first words behind it, a
// join or a tool's question, some thousands; OpenSSL would keep 128 KiB of somebody who never ends.
inline constexpr std::size_t handshake_bytes_max = 16 * 1024;
// For that round trip and a little patience: the agent's own for an attempt is as long.
inline constexpr std::chrono::nanoseconds handshake_patience = 5s;

}  // namespace cpprun::bounds
