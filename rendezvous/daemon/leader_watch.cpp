// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/leader_watch.h"

#include <algorithm>
#include <utility>

namespace cpprun {

void LeaderWatch::lost(TimePoint now, const std::string& reason) {
  if (!leader_ || lost_at_) return;
  lost_at_ = now;
  lost_by_ = reason;
}

std::optional<LeaderChange> LeaderWatch::leads(const ClockPair& now, const Leader& leader) {
  const auto lost_at = std::exchange(lost_at_, std::nullopt);
  std::string reason = std::exchange(lost_by_, {});
  const std::optional<Leader> before = std::exchange(leader_, leader);
  const bool is_same = before && before->name == leader.name && before->epoch == leader.epoch;
  if (is_same) return std::nullopt;
  since_ = now.wall;
  if (!before && !leader.is_won) return std::nullopt;
  if (!before) reason = "no leader was known before";
  if (reason.empty()) reason = "reported by etcd or by the new leader";
  last_ = LeaderChange{
      .time = now.wall,
      .from = before ? before->name : std::string(),
      .from_place = before ? before->place : std::string(),
      .to = leader.name,
      .to_place = leader.place,
      .epoch = leader.epoch,
      .reason = std::move(reason),
      .silence = lost_at ? std::optional(std::max(now.now - *lost_at, Duration{})) : std::nullopt};
  ++changes_;
  return last_;
}

}  // namespace cpprun
