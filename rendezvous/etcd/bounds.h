// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of leader election with etcd.

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// Endpoints of one etcd cluster. etcd itself advises against more than seven members.
inline constexpr std::size_t etcd_endpoints_max = 16;
// A name, or the path in front of the keys: a job id and a prefix.
inline constexpr std::size_t etcd_prefix_bytes_max = 512;
// The name of a candidate: a host name and a little more.
inline constexpr std::size_t election_name_bytes_max = 255;
// How clients reach a leader: some addresses.
inline constexpr std::size_t election_card_bytes_max = 16 * 1024;
// Synced standbys of one leader: usually one, or a few.
inline constexpr std::size_t election_synced_max = 32;
// One record. etcd accepts 1.5 MiB per request by default, including names; a job of two thousand
// nodes needs 1 MiB.
inline constexpr std::size_t election_record_bytes_max = 1024 * 1024;
inline constexpr std::size_t election_record_name_bytes_max = 256;
// Records of one election: one for each job of a daemon.
inline constexpr std::size_t election_records_max = 1024;
// All records together: etcd's own quota is 2 GiB by default, for all its users and including old
// revisions that are not compacted yet.
inline constexpr std::size_t election_records_bytes_max = 128 * 1024 * 1024;
// Records written at once: etcd allows 128 operations in a transaction by default.
inline constexpr std::size_t election_batch_max = 64;
// Records read at once: with the largest ones a reply has 22 MiB.
inline constexpr std::size_t election_page_records = 16;

// --- messages of etcd ----------------------------------------------------------------------------
// A reply: a page of the largest records in base64, with a margin.
inline constexpr std::size_t etcd_answer_bytes_max = 32 * 1024 * 1024;
// The JSON of a reply is nested seven deep.
inline constexpr std::size_t etcd_answer_depth_max = 16;
// etcd's message for a failure, a sentence.
inline constexpr std::size_t etcd_words_bytes_max = 256;
// A token: some dozens of bytes, or some hundreds if it is signed.
inline constexpr std::size_t etcd_token_bytes_max = 8 * 1024;
// A PEM file: CA certificates, a certificate with its chain, or a key.
inline constexpr std::size_t etcd_pem_bytes_max = 1024 * 1024;
// Elements of a list in a reply; more than any that is requested.
inline constexpr std::size_t etcd_answer_parts_max = 256;

// --- time of an election with etcd ---------------------------------------------------------------
// Default of --etcd-lease. An etcd outage shorter than this interrupts no job; a leader whose host
// is lost is replaced after it.
inline constexpr std::chrono::nanoseconds election_ttl = 10s;
inline constexpr std::chrono::nanoseconds election_ttl_min = 1s;  // etcd counts in seconds
// Range of --etcd-lease. etcd raises shorter ones to one and a half election timeouts. With longer
// ones a lost host would go unnoticed for longer than a job's nodes wait for each other.
inline constexpr std::chrono::seconds etcd_lease_min = 2s;
inline constexpr std::chrono::seconds etcd_lease_max = 120s;
inline constexpr std::chrono::nanoseconds election_ttl_max = 10min;
// A leader gives up leadership this long before its lease ends: it covers a clock error of one in
// two hundred (more would be a broken clock), and the time of its last actions.
constexpr std::chrono::nanoseconds election_margin(std::chrono::nanoseconds ttl) {
  return std::max<std::chrono::nanoseconds>(ttl / 20, 50ms);
}
// Renewal interval: three renewals may fail, and an etcd outage costs at most a second of the lease
// beyond its own duration.
constexpr std::chrono::nanoseconds election_renewal_pause(std::chrono::nanoseconds ttl) {
  return std::min<std::chrono::nanoseconds>(ttl / 4, 1s);
}
// Timeout of one etcd member: a small enough part of the lease to try the others. A member that is
// regularly slower than this is slower than a disk.
constexpr std::chrono::nanoseconds etcd_timeout(std::chrono::nanoseconds ttl) {
  return std::clamp<std::chrono::nanoseconds>(ttl / 4, 250ms, 5s);
}
// Added to the timeout for each MiB to write or to receive. A slower network is unsuitable for
// leader election.
inline constexpr std::chrono::nanoseconds etcd_timeout_per_mebibyte = 1s;
// How much longer than with the shortest lease (takeover_window) workers outlive the lease of their
// node while another cpprund may become leader. If the leader's host also runs etcd's leader, the
// lease is waited for twice (leader_lease.h). A leader keeps the largest value that its nodes have
// received.
constexpr std::chrono::nanoseconds takeover_window_more(std::chrono::nanoseconds etcd_lease) {
  return 2 * (etcd_lease - etcd_lease_min);
}
// Interval at which candidates read the election's keys: a successor loses an eighth of a lease,
// and etcd serves two small reads in a quarter of a second.
constexpr std::chrono::nanoseconds election_look_pause(std::chrono::nanoseconds ttl) {
  return std::min<std::chrono::nanoseconds>(ttl / 8, 250ms);
}
// Interval at which a leader reads etcd's alarms, so that a lack of space is known before a change
// is rejected.
inline constexpr std::chrono::nanoseconds etcd_alarm_pause = 10s;
// The same while a change is expected in a moment, and how long that lasts.
inline constexpr std::chrono::nanoseconds election_eager_look_pause = 5ms;
inline constexpr std::chrono::nanoseconds election_eager_time = 1s;
// Pause of a candidate that may not read the records, in which another one can win.
inline constexpr std::chrono::nanoseconds election_unfit_pause = 5s;
// Pause after all members have failed, before the next round of attempts.
inline constexpr std::chrono::nanoseconds etcd_round_pause = 200ms;

}  // namespace cpprun::bounds
