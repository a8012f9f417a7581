// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of what the coordinator, the daemon and the launcher share.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// Bytes read from a link at once, into a short-lived buffer: more than the largest frame.
inline constexpr std::size_t link_read_bytes = 64 * 1024;
// Output queued for an agent that does not read; its link is cut beyond this.
inline constexpr std::size_t link_outbox_bytes_max = 256 * 1024;

// Interval of attempts to write events to a full disk.
inline constexpr auto full_disk_pause = 1s;

// Bytes read from a worker's pipe at once, so that one worker does not block the event loop.
inline constexpr std::size_t pump_read_bytes = 64 * 1024;
// Output queued for a console that is not read; beyond this the workers' pipes are not read.
inline constexpr std::size_t console_queue_bytes_max = 1024 * 1024;

// Lines that differ only in numbers: this many within a window are written, the others are counted.
inline constexpr std::size_t log_alike_max = 5;
inline constexpr auto log_window = 10s;
// Kinds of lines distinguished at the same time.
inline constexpr std::size_t log_kinds_max = 256;

// Bytes accepted from a peer until its handshake is done. A handshake has some 300 bytes, and the
// first message behind it, a Join or a tool's request, some thousands; OpenSSL would buffer 128 KiB
// of an endless one.
inline constexpr std::size_t handshake_bytes_max = 16 * 1024;

}  // namespace cpprun::bounds
