// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of a store that is reached through the nodes' agents: the rest of proto/bounds.h.

#include <cstddef>

namespace cpprun::bounds {

// Of one worker's connection, in either direction: bytes under way that were not taken yet. At 1 ms
// from node to node that lets 256 MB a second through.
inline constexpr std::size_t store_stream_window = 256 * 1024;
// Connections of one node's workers, those included that are being closed.
inline constexpr std::size_t store_streams_max = 65'536;
// Frames that one end says before its loop looks at everything else: a quarter of a megabyte, which
// takes the kernel and the cipher well under a millisecond.
inline constexpr int store_frames_per_turn = 8;
// What a link may hold whatever else its address holds, as long as the reserve for links lasts:
// TLS's own, and a few frames that wait. Who sends too much loses what sends it, and not the link.
inline constexpr std::size_t link_bytes_always = 192 * 1024;
// What an idle link costs: its channel, its callbacks, its entries in the coordinator's tables.
inline constexpr std::size_t link_idle_bytes = 2 * 1024;
// Of what workers of one node are told, that waits until somebody else has it, too.
inline constexpr std::size_t held_link_bytes_max = 256 * 1024;
// Who may wait to be let in by a node's agent: eight workers with many threads each come at once.
inline constexpr int store_forwarder_backlog = 1024;
// Taken from one worker's connection at once.
inline constexpr std::size_t store_forwarder_read_bytes = 64 * 1024;

}  // namespace cpprun::bounds
