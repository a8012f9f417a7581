// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of an agent.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// Time for a node to introduce itself at all addresses of its master before it joins: several round
// trips around the world, and a small part of a lease.
inline constexpr std::chrono::nanoseconds introduction_timeout = 500ms;
// Delay before missing nodes are reported, since nodes never start at the same moment.
inline constexpr std::chrono::nanoseconds first_status_after = 2s;
// Pause between attempts to reach the master; doubled each time, within these bounds.
inline constexpr std::chrono::nanoseconds dial_pause_min = 50ms;
inline constexpr std::chrono::nanoseconds dial_pause_max = 1s;
// How long a master stays up so that the other nodes receive the end of the job.
inline constexpr std::chrono::nanoseconds result_delivery_max = 5s;

// The store of a job whose coordinator's program is replaced: it is copied several times.
inline constexpr std::size_t upgraded_store_bytes_max = 64 * 1024 * 1024;

// How often a killed watchdog is replaced; killing it more often than that is intentional.
inline constexpr int watchdogs_posted_max = 16;
// How long no worker may contact the store before cpprun suspects that the script sets up its own
// process group: loading torch and a large data set takes less.
inline constexpr std::chrono::nanoseconds own_world_timeout = 60s;
// Processes of a worker inspected then; a DataLoader has dozens.
inline constexpr std::size_t family_looked_at_max = 256;
// Bytes read of /proc/net/tcp: a line has 150 bytes, and a busy machine has a few thousand sockets.
inline constexpr std::size_t socket_table_bytes_max = 4 * 1024 * 1024;

// How long the last output may take on a slow console (a pager, a stopped terminal); a second
// Ctrl-C shortens it.
inline constexpr auto console_timeout = 60s;
inline constexpr auto console_timeout_pressed = 200ms;

// Previous masters that are searched for if several were lost one after the other.
inline constexpr std::size_t masters_looked_for_max = 4;
// Timeout of each step (name, address, greeting) of an attempt to reach the next member. A live
// member replies sooner, and many such steps fit into takeover_window. It grows if no seat is at
// risk.
inline constexpr std::chrono::nanoseconds turn_step = 400ms;
// Pause between two rounds of attempts, if any.
inline constexpr std::chrono::nanoseconds turn_pause_max = 100ms;

// A job that ends sooner needs none; by then a longer one has started its workers.
inline constexpr std::chrono::nanoseconds door_opens_after = 200ms;

// For how long a parent's second signal waits, to see whether the parent has ended.
inline constexpr std::chrono::nanoseconds parent_end_max = 500ms;

// Events kept unformatted while there is no watcher; beyond this all are formatted.
inline constexpr std::size_t events_unsaid_max = 64;

}  // namespace cpprun::bounds
