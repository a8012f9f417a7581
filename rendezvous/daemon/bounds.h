// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of a daemon and of its replicas.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// A daemon's lease and settle window for a job whose first node does not set them.
inline constexpr std::chrono::nanoseconds daemon_lease = 3s;
inline constexpr std::chrono::nanoseconds daemon_last_call = 30s;
// Interval of the lines that say what the job waits for.
inline constexpr std::chrono::nanoseconds status_interval = 5s;

// Per address, unless a daemon's flags say otherwise: connections for the largest number of ranks
// behind one address, and the keys of a full gloo mesh of a thousand ranks.
inline constexpr std::uint64_t store_address_connections_max = 16'384;
inline constexpr std::uint64_t store_address_keys_max = 1'048'576;

// One line of a daemon's log: two texts of a link and the words around them.
inline constexpr std::size_t log_line_bytes_max = 4 * 1024 + 512;
// Log output queued for a slow reader; beyond this only job events are added, up to
// console_queue_bytes_max.
inline constexpr std::size_t log_behind_bytes = 256 * 1024;
// How long an exiting daemon waits for the reader of its log.
inline constexpr auto log_flush_max = 1s;

// A standby is heard at least this often. A standby that is silent for standby_silence is not
// waited for any longer while a client waits.
inline constexpr std::chrono::nanoseconds standby_beat = 200ms;
inline constexpr std::chrono::nanoseconds standby_silence = 1s;
// Replication data queued for its link before images are held back.
inline constexpr std::size_t standby_bytes_waiting_max = 64 * 1024 * 1024;
// If more than this is queued and no client waits for the standby, it is resynchronized from
// scratch: an image is no larger than the current state.
inline constexpr std::size_t standby_bytes_behind_max = 2 * standby_bytes_waiting_max;
// The reply to the client that requested a transfer of leadership; sooner than the client's
// timeout.
inline constexpr std::chrono::nanoseconds hand_over_answer = 4s;
// How long workers outlive the lease of their node while another cpprund may become leader: longer
// than etcd takes to expire the leader's lease (a time to live of two seconds, noticed half a
// second later), with a margin for an etcd member that is lost at the same moment. The same for the
// whole cluster.
inline constexpr std::chrono::nanoseconds takeover_window = 6s;
// How long a cpprund that is asked to exit still processes messages that arrived before.
inline constexpr auto last_words = 10ms;

}  // namespace cpprun::bounds
