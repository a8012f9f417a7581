// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How the time of a job's nodes was spent. Each node-second is booked to exactly one account, so
// the accounts add up to the time for which nodes were present.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

enum class Account {
  waiting_for_nodes,  // too few nodes for a round
  rendezvous,         // enough nodes: the settle window, broken links that may come back
  starting,           // from the start of its workers until they contact the store
  training,
  detecting,    // from a failure, or the last sign of a lost node, to the end of the round
  draining,     // until all processes of the round have ended
  pausing,      // before a restart, if a pause was requested
  redoing,      // repeating the training since the last checkpoint, if workers report it
  standing_by,  // spares, and nodes that are done
};
inline constexpr std::size_t account_count = 9;

// "waiting_for_nodes", as in JSON and metrics.
std::string_view name_of(Account account);

// Microseconds: ten thousand nodes for ten years would overflow nanoseconds.
using NodeDuration = std::chrono::microseconds;
// The largest accepted value: ten thousand nodes for three years. The sum over all accounts still
// fits.
inline constexpr std::chrono::hours time_use_max{24 * 365 * 30'000};

// By account, in the order of the enumeration.
using NodeTime = std::array<NodeDuration, account_count>;
inline NodeDuration& of(NodeTime& time, Account account) {
  return time[static_cast<std::size_t>(account)];
}
inline NodeDuration of(const NodeTime& time, Account account) {
  return time[static_cast<std::size_t>(account)];
}
NodeDuration sum_of(const NodeTime& time);

// Time lost to one cause: its failures, and everything until training resumed.
struct LostTime {
  std::string cause;      // the id of a cause; "start" for the job's own start
  std::string host = {};  // the host, if it was always the same
  std::size_t count = 0;  // number of occurrences
  NodeTime time{};        // training is zero
  friend bool operator==(const LostTime&, const LostTime&) = default;
};

struct TimeUse {
  NodeDuration wall{};  // since the first node joined
  NodeTime nodes{};
  std::vector<LostTime> lost = {};  // ordered by first occurrence
  friend bool operator==(const TimeUse&, const TimeUse&) = default;
};

// "9.5 s", "3 h 12 min".
std::string span_text(double seconds);
// "training 96.8 % of 3 h 12 min × 4 nodes; lost: 6 min (2 × out_of_memory on node-7), 12 s
// (startup)". The share is of the nodes' time; each loss is what the job would have saved without
// it.
std::string to_text(const TimeUse& use);
// The number of rounds that failed, for any cause.
std::size_t failures_of(const TimeUse& use);

}  // namespace cpprun
