// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of one job.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// The highest round number that a joining node may report. A job that starts a round every second
// takes thirty years to get there, and still has numbers left for a century.
inline constexpr std::uint32_t round_number_max = 1'000'000'000;
// Failures that a node reports per round; the first of each kind is representative.
inline constexpr std::size_t failures_told_max = 8;
inline constexpr std::size_t later_message_bytes_max = 256;
// A worker that dies this soon after its round began has done no work. After three times in a row
// another attempt is pointless.
inline constexpr std::chrono::nanoseconds crash_loop_life = 1s;
inline constexpr int crash_loop_deaths = 3;
// A coordinator that wakes up late was suspended or starved. Messages of the nodes wait in its
// sockets meanwhile, so it reads for this long before it gives up on any node.
inline constexpr std::chrono::nanoseconds coordinator_nap = 200ms;
// A delay that is not taken for a suspension. When a node is given up, unread messages are at most
// twice this old, compared with a lease of seconds.
inline constexpr std::chrono::nanoseconds coordinator_blink = 10ms;
// Consecutive extensions of that kind; a coordinator that is always late still has to give up on
// dead nodes.
inline constexpr int coordinator_naps_max = 3;
// The shortest lease: a tenth of what a badly overloaded machine has kept, and ten times
// coordinator_blink.
inline constexpr std::chrono::nanoseconds lease_min = 100ms;
// An agent's own lease is shorter than the coordinator's by this: SIGKILL takes a moment, and the
// ranks must not be given to another node before.
inline constexpr std::chrono::nanoseconds fence_margin = 250ms;
// The number of heartbeats from which the one with the shortest round trip determines a node's
// clock offset: enough to include one without queueing, few enough that clock drift stays within
// microseconds.
inline constexpr int clock_samples = 32;
// Nodes that a sentence names before it says "and others".
inline constexpr std::size_t nodes_named_max = 8;

// Rounds that a coordinator remembers for the status, and the length of a failure's message there:
// a thousand jobs that keep failing use some thirty megabytes in a daemon.
inline constexpr std::size_t first_rounds_kept_max = 10;
inline constexpr std::size_t last_rounds_kept_max = 30;
inline constexpr std::size_t history_message_bytes_max = 512;

// Completions of nodes are recorded together, this long after the first one, since a record grows
// with the number of nodes.
constexpr std::chrono::nanoseconds done_record_delay(std::size_t nodes) {
  return 200ms + 100us * static_cast<long>(nodes);
}
// With fewer nodes there is no majority without the coordinator's own.
inline constexpr std::size_t standby_nodes_min = 3;
// Silence of the coordinator after which a node votes: its lease and the time in which heartbeats
// of the other nodes echo what they received.
constexpr std::chrono::nanoseconds vote_timeout(std::chrono::nanoseconds lease) {
  return lease + lease / 6;
}
// How often the leader of a job whose master was lost checks whether a new master has started. For
// lead_search a new master seals no round with fewer nodes than possible, so that this leader has
// time to find it.
inline constexpr std::chrono::nanoseconds master_look_pause = 2s;
inline constexpr std::chrono::nanoseconds lead_search = 5s;
// A transfer of leadership is done within this time, or aborted.
inline constexpr std::chrono::nanoseconds hand_over_timeout = 2s;
// How often per lease a coordinator computes until when its nodes follow it; the value that its
// watchdog has is never older.
inline constexpr int lead_looks_per_lease = 8;

}  // namespace cpprun::bounds
