// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of a store and of its clients.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// Timeout from an agent's greeting to its Join, which follows at once.
inline constexpr std::chrono::nanoseconds first_message_timeout = 10s;

// Replies queued for one client. Beyond this none of its requests is read until it has read some;
// large enough for clients that send thousands of requests before they read.
inline constexpr std::size_t store_outbox_bytes_max = 16 * 1024 * 1024;
// A client with that much queued that reads nothing for this long is disconnected.
inline constexpr auto store_reader_stall_max = 30s;
// Clients waiting for a key that are woken before others are served again: about a millisecond.
inline constexpr std::size_t store_wakes_per_slice = 128;
// A number in ADD and BARRIER: its digits, and the blanks before them. Upstream allows any number
// of both, and reads hundreds of megabytes before it finds an invalid one.
inline constexpr std::size_t store_number_digits_max = 20;
inline constexpr std::size_t store_number_blanks_max = 32;
// Values of at least this size are in memory that replies refer to; shorter ones are copied.
inline constexpr std::size_t store_shared_bytes_min = 512;
// Replies of at least this size refer to their values; copying is faster below it.
inline constexpr std::size_t store_shared_reply_bytes_min = 16 * 1024;
// Requests of at least this size cannot use the last eighth of the memory budget.
inline constexpr std::size_t store_bulk_bytes_min = 64 * 1024;
// Memory freed in one step; larger blocks are freed in slices.
inline constexpr std::size_t store_freed_at_once_max = 64 * 1024;
// Freeing this many bytes costs as much as copying one, since whole pages are returned.
inline constexpr std::size_t store_bytes_freed_of_work = 8;
// Overhead of a key, a queue entry, a wait or a watch beyond its own bytes: the container nodes.
inline constexpr std::size_t store_entry_bytes = 192;
// Work of one turn of the store, in bytes copied: half a millisecond. Links are served between two
// turns.
inline constexpr std::size_t store_work_per_turn = 1024 * 1024;
// The share of it for one connection, before the next has its turn.
inline constexpr std::size_t store_work_per_visit = 128 * 1024;
// Work for the parts of a request besides its bytes: lookup, reply and accounting.
inline constexpr std::size_t store_work_of_request = 256;
inline constexpr std::size_t store_work_of_key = 384;
// Kernel work to open and close a connection: some ten microseconds.
inline constexpr std::size_t store_work_of_connection = 24 * 1024;
// Connections that one request wakes or notifies, and keys that a disconnecting client waits for or
// watches: this many are handled at once, the others in turns of that many.
inline constexpr std::size_t store_told_at_once_max = 1024;
inline constexpr std::size_t store_told_in_turn = 2048;
// Reserved so that a client for which memory has run out can be disconnected with a reason.
inline constexpr std::size_t store_last_memory_bytes = 256 * 1024;
// A request with more keys than this is executed in parts of that many, one per turn.
inline constexpr std::size_t store_keys_at_once_max = 8192;
inline constexpr std::size_t store_keys_in_part = 2048;
// Keys that LIST_KEYS returns per turn.
inline constexpr std::size_t store_keys_listed_at_once = 4096;
// Clients of an embedded store with a secret: handshakes at a time, the time of one, and bytes that
// wait in either direction.
inline constexpr std::size_t store_secure_handshakes_max = 256;
inline constexpr auto store_secure_handshake = 10s;
inline constexpr std::size_t store_secure_buffer_bytes = 256 * 1024;
// Namespaces of a store, and keys whose leases have ended that are deleted in one turn.
inline constexpr std::size_t store_namespaces_max = 1024;
inline constexpr std::size_t store_leases_ended_at_once = 1024;
// How long leases do not end while input of clients waits to be read.
inline constexpr auto store_leases_held_max = 10s;
// Replies gathered into one write; larger ones are written on their own.
inline constexpr std::size_t store_gather_bytes = 256 * 1024;
// File descriptors that store clients cannot use: one in so many, at most one for each node of a
// large job. Without them a flood of store clients would keep agents out.
inline constexpr std::uint64_t link_descriptors_share = 8;
inline constexpr std::uint64_t link_descriptors_max = 4096;
// Attempts to get a port that can be bound but not listened on; see try_listen().
inline constexpr int listen_attempts_max = 8;
// Pause of a listener that cannot accept, not even to reject.
inline constexpr auto store_accept_rest = 100ms;
// What callbacks of an embedded store that were not made yet may hold: a watcher that lags that far
// behind has to look at the store itself.
inline constexpr std::size_t store_callback_bytes_max = 16 * 1024 * 1024;
// Time that callbacks get before clients are served again; one callback may take longer.
inline constexpr auto store_callbacks_slice = 1ms;
// Idle time after which the kernel probes a peer, and how long probes may stay unanswered. Waits of
// hours are normal; half-open connections must not keep them forever.
inline constexpr auto store_keepalive_idle = 60s;
inline constexpr auto store_keepalive_interval = 15s;
inline constexpr auto store_peer_timeout = 120s;

// Unacknowledged bytes of one worker's connection, per direction. With 1 ms between nodes it allows
// 256 MB/s.
inline constexpr std::size_t store_stream_window = 256 * 1024;
// Connections of one node's workers, including those being closed.
inline constexpr std::size_t store_streams_max = 65'536;
// Frames that one end sends before its event loop continues: a quarter of a megabyte, which takes
// the kernel and the cipher well under a millisecond.
inline constexpr int store_frames_per_turn = 8;
// Backlog of a node's agent: eight workers with many threads each may connect at once.
inline constexpr int store_forwarder_backlog = 1024;
// Bytes read from one worker's connection at once.
inline constexpr std::size_t store_forwarder_read_bytes = 64 * 1024;

}  // namespace cpprun::bounds
