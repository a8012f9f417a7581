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
// What is asked for unless somebody says otherwise; with etcd's own defaults it grants no less.
inline constexpr std::chrono::nanoseconds contest_ttl = 2s;
inline constexpr std::chrono::nanoseconds contest_ttl_min = 1s;  // etcd counts in seconds
inline constexpr std::chrono::nanoseconds contest_ttl_max = 10min;
// A leader ends before its lease does: a clock that is wrong by one in two hundred is broken, and
// what it does last takes a moment.
constexpr std::chrono::nanoseconds contest_margin(std::chrono::nanoseconds ttl) {
  return std::max<std::chrono::nanoseconds>(ttl / 20, 50ms);
}
// A lease is renewed so often: three times may fail.
constexpr std::chrono::nanoseconds contest_renewal_pause(std::chrono::nanoseconds ttl) {
  return ttl / 4;
}
// How long one member of etcd may take: of a lease little enough that others can be asked. A member
// that is not slower than this on a good day is slower than a disk.
constexpr std::chrono::nanoseconds etcd_patience(std::chrono::nanoseconds ttl) {
  return std::clamp<std::chrono::nanoseconds>(ttl / 4, 250ms, 2s);
}
// And so much longer for each MiB that it has to write, or may have to send: a network that takes
// longer for that is no network for a judge.
inline constexpr std::chrono::nanoseconds etcd_patience_per_mebibyte = 1s;
// How often who leads is looked at: what a successor loses is an eighth of a lease, and a quarter
// of a second of etcd's time has two small reads.
constexpr std::chrono::nanoseconds contest_look_pause(std::chrono::nanoseconds ttl) {
  return std::min<std::chrono::nanoseconds>(ttl / 8, 250ms);
}
// The same where it is known to change in a moment, and how long such a moment is.
inline constexpr std::chrono::nanoseconds contest_eager_look_pause = 5ms;
inline constexpr std::chrono::nanoseconds contest_eager_time = 1s;
// The same where nobody is in need of it.
inline constexpr std::chrono::nanoseconds contest_seldom_look_pause = 5s;
// Before the same members are asked once more, when none of them has answered.
inline constexpr std::chrono::nanoseconds etcd_round_pause = 200ms;

}  // namespace cpprun::bounds
