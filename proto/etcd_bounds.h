// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of whoever lets etcd say who leads: the rest of proto/bounds.h.

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// --- what is kept in etcd ------------------------------------------------------------------------
// Members of one cluster that may be named. etcd itself advises against more than seven.
inline constexpr std::size_t etcd_endpoints_max = 16;
// A name, or a path in front of our keys: a job's id, and something before it.
inline constexpr std::size_t etcd_prefix_bytes_max = 512;
// Who takes part: a host's name and a little more.
inline constexpr std::size_t contest_name_bytes_max = 255;
// What a leader shows of itself: some addresses.
inline constexpr std::size_t contest_card_bytes_max = 16 * 1024;
// Who may stand by for one leader: a pair, or a few more.
inline constexpr std::size_t contest_synced_max = 32;
// One record. etcd takes 1.5 MiB in a request by default, with the names and all; 1 MiB is what a
// job of two thousand nodes leaves.
inline constexpr std::size_t contest_record_bytes_max = 1024 * 1024;
inline constexpr std::size_t contest_record_name_bytes_max = 256;
// Records of one contest: as many as a daemon has jobs.
inline constexpr std::size_t contest_records_max = 1024;
// All of them together: etcd's own quota is 2 GiB by default, for all its users and for what was
// written over and not compacted yet.
inline constexpr std::size_t contest_records_bytes_max = 128 * 1024 * 1024;
// Of them as many are written at once: etcd takes 128 operations in a transaction by default.
inline constexpr std::size_t contest_batch_max = 64;
// And as many are read at once: with the largest of them an answer has 22 MiB.
inline constexpr std::size_t contest_page_records = 16;

// --- what passes between us and etcd -------------------------------------------------------------
// An answer: a page of the largest records in base64, and some more.
inline constexpr std::size_t etcd_answer_bytes_max = 32 * 1024 * 1024;
// An answer's JSON is nested seven deep.
inline constexpr std::size_t etcd_answer_depth_max = 16;
// What etcd says of a failure is a sentence.
inline constexpr std::size_t etcd_words_bytes_max = 256;
// A token is some dozens of bytes, or a signed one of some hundreds.
inline constexpr std::size_t etcd_token_bytes_max = 8 * 1024;
// A CA's certificates, a certificate with its chain, or a key, as files.
inline constexpr std::size_t etcd_pem_bytes_max = 1024 * 1024;
// Records that etcd reads for us in one answer, and the most that it may ever say there are.
inline constexpr std::size_t etcd_answer_parts_max = 256;

// --- time ----------------------------------------------------------------------------------------
// Default of --etcd-lease. An etcd that does not respond for less than this interrupts no job; a
// leader whose host is lost is replaced after it.
inline constexpr std::chrono::nanoseconds contest_ttl = 10s;
inline constexpr std::chrono::nanoseconds contest_ttl_min = 1s;  // etcd counts in seconds
// Of --etcd-lease. etcd raises shorter ones to its election timeout and a half; with longer ones a
// lost host would go unnoticed for longer than a job's nodes wait for each other.
inline constexpr std::chrono::seconds etcd_lease_min = 2s;
inline constexpr std::chrono::seconds etcd_lease_max = 120s;
inline constexpr std::chrono::nanoseconds contest_ttl_max = 10min;
// A leader ends before its lease does: a clock that is wrong by one in two hundred is broken, and
// what it does last takes a moment.
constexpr std::chrono::nanoseconds contest_margin(std::chrono::nanoseconds ttl) {
  return std::max<std::chrono::nanoseconds>(ttl / 20, 50ms);
}
// Renewal interval: three renewals may fail, and an outage of etcd costs at most a second of the
// lease beside its own length.
constexpr std::chrono::nanoseconds contest_renewal_pause(std::chrono::nanoseconds ttl) {
  return std::min<std::chrono::nanoseconds>(ttl / 4, 1s);
}
// How long one member of etcd may take: of a lease little enough that others can be asked. A member
// that is not slower than this on a good day is slower than a disk.
constexpr std::chrono::nanoseconds etcd_patience(std::chrono::nanoseconds ttl) {
  return std::clamp<std::chrono::nanoseconds>(ttl / 4, 250ms, 5s);
}
// And so much longer for each MiB that it has to write, or may have to send: a network that takes
// longer for that is no network for a judge.
inline constexpr std::chrono::nanoseconds etcd_patience_per_mebibyte = 1s;
// How much longer than with the shortest lease (turn_patience) workers outlive the lease of their
// node while another cpprund may become leader. Where the host of the leader takes etcd's own
// leader along, the lease of the leader is waited for twice (leader_lease.h). A leader keeps the
// largest value that its nodes have received.
constexpr std::chrono::nanoseconds turn_patience_more(std::chrono::nanoseconds etcd_lease) {
  return 2 * (etcd_lease - etcd_lease_min);
}
// How often who leads is looked at: what a successor loses is an eighth of a lease, and a quarter
// of a second of etcd's time has two small reads.
constexpr std::chrono::nanoseconds contest_look_pause(std::chrono::nanoseconds ttl) {
  return std::min<std::chrono::nanoseconds>(ttl / 8, 250ms);
}
// How often a leader reads the alarms of etcd: that it has no room left is known before a change
// is refused.
inline constexpr std::chrono::nanoseconds etcd_alarm_pause = 10s;
// The same where it is known to change in a moment, and how long such a moment is.
inline constexpr std::chrono::nanoseconds contest_eager_look_pause = 5ms;
inline constexpr std::chrono::nanoseconds contest_eager_time = 1s;
// The same where nobody is in need of it.
inline constexpr std::chrono::nanoseconds contest_seldom_look_pause = 5s;
// Before the same members are asked once more, when none of them has answered.
inline constexpr std::chrono::nanoseconds etcd_round_pause = 200ms;

}  // namespace cpprun::bounds
