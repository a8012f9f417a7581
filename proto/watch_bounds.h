// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of whoever watches a job through cpprunctl: the rest of proto/bounds.h.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// --- the socket for tools ------------------------------------------------------------------------
// A job that ends sooner needs none; by then one that lasts has started its workers.
inline constexpr std::chrono::nanoseconds door_opens_after = 200ms;
// Programs of one machine whose process ids are the same: one in each of its containers.
inline constexpr int doors_of_one_name_max = 64;
// Who may wait to be let in.
inline constexpr int door_backlog = 16;
// A door at which nobody can be let in is looked at again after that.
inline constexpr std::chrono::nanoseconds door_rest = 100ms;
// Sockets of one folder that are looked at, by whoever sweeps or asks.
inline constexpr std::size_t doors_looked_at_max = 4096;

// --- the stream of events ------------------------------------------------------------------------
// What is kept for whoever comes later: the last events, with the words of a few failures.
inline constexpr std::size_t events_kept_max = 1000;
inline constexpr std::size_t events_kept_bytes_max = 256 * 1024;
// Events that are kept as they are while nobody listens; with more of them all are made lines.
inline constexpr std::size_t events_unsaid_max = 64;
// Who watches, beside those that ask: some people at their terminals.
inline constexpr std::size_t watchers_max = 8;
// What may wait for a watcher, beside what it was told first: then it is not reading.
inline constexpr std::size_t watcher_bytes_max = 256 * 1024;
// Between two words to a watcher while nothing happens: what lies between must not take the
// connection for dead.
inline constexpr std::chrono::nanoseconds watcher_keep_alive = 15s;

// --- cpprunctl -----------------------------------------------------------------------------------
// What one answer may make it hold: some times the largest that a coordinator gives.
inline constexpr std::size_t answer_bytes_max = 32 * 1024 * 1024;
// How long whoever is asked may take. One that is stopped is told of, and not waited for.
inline constexpr std::chrono::nanoseconds ask_patience = 5s;
// Whoever has asked for something hears within that whether it was done, or that this is not known:
// before it gives up (ask_patience), and after whoever hands over has said (hand_over_answer).
inline constexpr std::chrono::nanoseconds outcome_patience = 4500ms;
// What one event may be: the words of a failure many times over.
inline constexpr std::size_t event_bytes_max = 256 * 1024;

}  // namespace cpprun::bounds
