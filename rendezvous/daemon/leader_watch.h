// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who leads, as one of several cpprunds comes to know it: since when, and what has changed, why,
// and for how long nobody led in between. Knows no clock.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "proto/clock.h"
#include "rendezvous/status/daemon_snapshot.h"

namespace cpprun {

class LeaderWatch {
 public:
  // Of the one that leads nothing more is heard, or it has said that it leads no more. The first
  // reason counts, until somebody is known to lead.
  void lost(TimePoint now, const std::string& reason);

  struct Leader {
    std::string name;
    std::string place;
    std::uint64_t epoch = 0;
    bool is_won = false;  // by this one, from others
  };
  // That one leads. What has changed by that; nothing: it led before, or is the first of which this
  // one has heard, and is another.
  std::optional<LeaderChange> leads(const Moment& now, const Leader& leader);

  // Since then no leader is known.
  std::optional<TimePoint> lost_at() const { return lost_at_; }
  std::optional<WallTime> since() const { return since_; }
  std::size_t changes() const { return changes_; }
  const std::optional<LeaderChange>& last() const { return last_; }

 private:
  std::optional<Leader> leader_;  // the last that was known
  std::optional<WallTime> since_;
  std::optional<TimePoint> lost_at_;
  std::string lost_by_;
  std::size_t changes_ = 0;
  std::optional<LeaderChange> last_;
};

}  // namespace cpprun
