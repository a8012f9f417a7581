// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of a store client.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// One connection attempt; a host that drops packets must not delay its next address for long.
inline constexpr std::chrono::nanoseconds dial_attempt_max = 5s;

// Operands of COMPARE_SET: comparing equal values of that size takes a few milliseconds.
inline constexpr std::size_t store_compare_bytes_max = 16 * 1024 * 1024;
// Bytes read from one connection at once; all connections share the buffer.
inline constexpr std::size_t store_read_bytes = 64 * 1024;

// Default timeouts of a store client, for connecting and for a request: PyTorch's five minutes for
// both.
inline constexpr auto store_client_connect_timeout = 300s;
inline constexpr auto store_client_timeout = 300s;
// One unresponsive address must not use up the time of the others.
inline constexpr auto store_client_attempt_max = 5s;
// Pause between rounds of attempts: short at first, since the store is usually about to listen.
inline constexpr auto store_client_pause_first = 20ms;
inline constexpr auto store_client_pause_max = 1s;

// Of an asynchronous client: requests in progress, and bytes of requests that the kernel has not
// accepted yet, beyond which no further request is taken.
inline constexpr std::size_t async_requests_max = 100'000;
// An empty value counts when CHECK and GET have found it this often in a row.
inline constexpr int looks_at_empty_value = 3;
inline constexpr std::size_t async_unsent_bytes_max = 1024 * 1024 * 1024;
// Waits at a time, each with a connection of its own; further ones begin when others are over.
inline constexpr std::size_t async_waits_max = 256;
// Connections that are kept for the next waits.
inline constexpr std::size_t async_idle_connections_max = 2;
// Work of one dispatch: a turn handles so many events, and reads a buffer for each. The rest is
// left to the next.
inline constexpr int async_turns_per_dispatch = 16;
inline constexpr int async_events_per_turn = 64;
// Changes of watched keys that were not dispatched yet; then one "lost" stands for them.
inline constexpr std::size_t async_watch_bytes_max = 16 * 1024 * 1024;

}  // namespace cpprun::bounds
