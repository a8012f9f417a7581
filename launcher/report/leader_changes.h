// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How often another cpprund has led the job than before, as this node has known it, for the report.
// Bounded: the last ones are kept.

#include <cstddef>
#include <vector>

#include "rendezvous/status/daemon_snapshot.h"

namespace cpprun {

inline constexpr std::size_t leader_changes_max = 100;

class LeaderChanges {
 public:
  void add(LeaderChange change);

  const std::vector<LeaderChange>& list() const { return changes_; }
  std::size_t left_out() const { return left_out_; }  // before those

 private:
  std::vector<LeaderChange> changes_;
  std::size_t left_out_ = 0;
};

}  // namespace cpprun
