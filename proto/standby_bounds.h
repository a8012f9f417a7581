// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of whoever goes on with a job whose coordinator is lost: the rest of proto/bounds.h.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// What a coordinator leaves of its job travels in parts, so that heartbeats pass between them. As
// digits each has twice as many bytes, and still fits a frame of the link.
inline constexpr std::size_t record_part_bytes_max = 12 * 1024;
// Half a kilobyte a node: for ten thousand of them, twice over.
inline constexpr int record_parts_max = 1024;
// That nodes have done their part is recorded together, so long after the first of them: a record
// is as long as the job has nodes.
constexpr std::chrono::nanoseconds done_record_delay(std::size_t nodes) {
  return 200ms + 100us * static_cast<long>(nodes);
}
// With fewer nodes there is no majority without the coordinator's.
inline constexpr std::size_t standby_nodes_min = 3;
// After so much silence of its coordinator a node votes: longer than its lease by what the others'
// heartbeats need to say again what they have heard.
constexpr std::chrono::nanoseconds vote_patience(std::chrono::nanoseconds lease) {
  return lease + lease / 6;
}
// Whoever leads a job whose master was lost looks so often whether that one has come anew. A master
// seals no round of fewer nodes than could be there before it had been found.
inline constexpr std::chrono::nanoseconds master_look_pause = 2s;
inline constexpr std::chrono::nanoseconds lead_search = 5s;
// Masters of before that are looked for, where one after the other was lost.
inline constexpr std::size_t masters_looked_for_max = 4;
// Cppruns of which one leads: more of them do not make it safer, and each of them has to be waited
// for.
inline constexpr std::size_t members_max = 7;
// "host.example.com:29400".
inline constexpr std::size_t place_bytes_max = 253 + 6;
// A cpprund that stands by is heard at least so often; one that is not heard for so long is waited
// for no longer, and somebody waits for it meanwhile.
inline constexpr std::chrono::nanoseconds standby_beat = 200ms;
inline constexpr std::chrono::nanoseconds standby_silence = 1s;
// Of what it is told, so much may wait for its link before images wait for it.
inline constexpr std::size_t standby_bytes_waiting_max = 64 * 1024 * 1024;
// With more than this, where nobody waits for it, it begins anew: an image has no more than there
// is.
inline constexpr std::size_t standby_bytes_behind_max = 2 * standby_bytes_waiting_max;
// A lead that is handed over is somebody's by then, or goes on as it was.
inline constexpr std::chrono::nanoseconds hand_over_patience = 2s;
// Whoever has asked for that is answered within it: sooner than it gives up waiting.
inline constexpr std::chrono::nanoseconds hand_over_answer = 4s;
// For so long workers live on after the lease of their node while another cpprund may be taking the
// place of the one that leads: longer than it takes etcd to let go of that one (its time to live is
// two seconds, found out half a second later), and some more for one of etcd's own members that is
// lost in the same moment. The same for all of a cluster.
inline constexpr std::chrono::nanoseconds turn_patience = 6s;
// An attempt to reach the next of them, by its steps (a name, an address, a greeting): whoever is
// there answers sooner, and so many of them fit into a patience. Where no seat is to be lost, it
// grows.
inline constexpr std::chrono::nanoseconds turn_step = 400ms;
// Between two turns, where one is.
inline constexpr std::chrono::nanoseconds turn_pause_max = 100ms;
// How often a coordinator looks until when its nodes follow it: so many times in a lease. What its
// watchdog knows is never older.
inline constexpr int lead_looks_per_lease = 8;

// That a node says behind its join before its job can hear them: what it says again when it comes
// back, and a few beside.
inline constexpr std::size_t early_words_max = 32;
// The same of all agents together, in bytes: 20,000 of them with some small messages each.
inline constexpr std::size_t early_bytes_max = 8 * 1024 * 1024;

// For so long a cpprund that is asked to end hears what has come before it was.
inline constexpr auto last_words = 10ms;

}  // namespace cpprun::bounds
