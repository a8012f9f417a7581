// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of the status server and of its clients.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// Concurrent status connections: a browser opens six, a scraper one; each may wait for a reply of a
// megabyte.
inline constexpr std::size_t status_connections_max = 16;
// Timeouts: for a request from its first byte to its last, for an idle connection, for a client to
// read a reply, and for the client to close after the last reply.
inline constexpr std::chrono::nanoseconds status_request_timeout = 5s;
inline constexpr std::chrono::nanoseconds status_idle_timeout = 60s;
inline constexpr std::chrono::nanoseconds status_answer_timeout = 30s;
inline constexpr std::chrono::nanoseconds status_linger_max = 1s;

// Programs on one machine with the same process id: one in each container.
inline constexpr int doors_of_one_name_max = 64;
// The listen backlog.
inline constexpr int door_backlog = 16;
// Pause before accepting again after a failure.
inline constexpr std::chrono::nanoseconds door_rest = 100ms;
// Sockets of one directory that a sweep or a search looks at.
inline constexpr std::size_t doors_looked_at_max = 4096;

// Events kept for clients that connect later: the last ones, with a few failure messages.
inline constexpr std::size_t events_kept_max = 1000;
inline constexpr std::size_t events_kept_bytes_max = 256 * 1024;
// Concurrent watchers besides other clients: some people at their terminals.
inline constexpr std::size_t watchers_max = 8;
// Events queued for one watcher, besides the initial ones; beyond this it is not reading.
inline constexpr std::size_t watcher_bytes_max = 256 * 1024;
// Interval of keep-alives to a watcher while nothing happens, so that middleboxes do not drop the
// connection.
inline constexpr std::chrono::nanoseconds watcher_keep_alive = 15s;

// A client that sent a command learns within this time whether it was carried out, or that this is
// unknown: sooner than its own timeout (ask_timeout), and later than the result of a transfer
// (hand_over_answer).
inline constexpr std::chrono::nanoseconds outcome_timeout = 4500ms;

}  // namespace cpprun::bounds
