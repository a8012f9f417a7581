// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the time of a job's nodes went into. A node that is there for a second is a node-second, and
// each is booked to one account: so the accounts add up to the time for which the nodes were there.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

enum class Account {
  waiting_for_nodes,  // the round has too few
  rendezvous,         // enough are here: last call, broken links that may come back
  starting,           // from the start of its workers to their first word to the store
  training,
  detecting,    // from a failure, or the last word of a lost node, to the word that ends the round
  draining,     // until nobody of the round is alive
  pausing,      // before a restart, where a pause was asked for
  redoing,      // what was trained since the last checkpoint, where workers say so
  standing_by,  // spares, and nodes that have done their part
};
inline constexpr std::size_t account_count = 9;

// "waiting_for_nodes", as JSON and metrics have it.
std::string_view name_of(Account account);

// Ten thousand nodes for ten years are more nanoseconds than can be counted.
using NodeDuration = std::chrono::microseconds;
// And the longest that anybody is believed, ten thousand nodes for three years: of all accounts
// together it can be counted.
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

// What one cause has taken: the failures of that cause, and everything until training went on.
struct LostTime {
  std::string cause;      // the id of a cause; "start" for the job's own beginning
  std::string host = {};  // where, if it was the same each time
  std::size_t count = 0;  // how often
  NodeTime time{};        // nothing of it is training
  friend bool operator==(const LostTime&, const LostTime&) = default;
};

struct TimeUse {
  NodeDuration wall{};  // since the first node came
  NodeTime nodes{};
  std::vector<LostTime> lost = {};  // in the order in which they came up first
  friend bool operator==(const TimeUse&, const TimeUse&) = default;
};

// "training 94.1 % of 3 h 12 min × 4 nodes; lost: 6 min to 2 × out_of_memory on node-7, 12 s to the
// start": shares are of the nodes' time, and so much longer the job would have been shorter.
std::string to_text(const TimeUse& use);
// How many rounds were broken, by whatever cause.
std::size_t failures_of(const TimeUse& use);

}  // namespace cpprun
