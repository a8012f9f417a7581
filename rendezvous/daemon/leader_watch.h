// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Tracks which member of a cluster is the leader, as one member sees it: since when, what changed
// last and why, and how long there was no leader in between. Reads no clock; the caller passes the
// time.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "proto/clock.h"
#include "rendezvous/status/daemon_snapshot.h"

namespace cpprun {

class LeaderWatch {
 public:
  // Contact with the leader was lost, or it reported that it lost leadership. Only the first reason
  // counts until a leader is known again.
  void lost(TimePoint now, const std::string& reason);

  struct Leader {
    std::string name;
    std::string place;
    std::uint64_t epoch = 0;
    bool is_won = false;  // this member took over, by election or transfer
  };
  // `leader` is the leader as of `now`. Returns the change, or nullopt if there is none: the leader
  // is the same, or it is the first known leader and `is_won` is false.
  std::optional<LeaderChange> leads(const ClockPair& now, const Leader& leader);

  // Since when no leader has been known.
  std::optional<TimePoint> lost_at() const { return lost_at_; }
  std::optional<WallTime> since() const { return since_; }
  std::size_t changes() const { return changes_; }
  const std::optional<LeaderChange>& last() const { return last_; }

 private:
  std::optional<Leader> leader_;  // last known leader
  std::optional<WallTime> since_;
  std::optional<TimePoint> lost_at_;
  std::string lost_by_;
  std::size_t changes_ = 0;
  std::optional<LeaderChange> last_;
};

}  // namespace cpprun
