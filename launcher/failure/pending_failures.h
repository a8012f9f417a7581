// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One attempt's bad ends on this node: the verdict on each, what the coordinator hears of them,
// when each was noticed; and which worker ended well first. The first is reported at once, while
// the others still have to be ended. Later ones are reported too, unless we ended them ourselves:
// the first to be noticed need not be the one to blame.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/failure/diagnosis.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"

namespace cpprun {

class PendingFailures {
 public:
  // Where this attempt is lived.
  struct Place {
    RoundNumber round;
    GroupRank group_rank;
    std::string host;
  };

  void started(TimePoint now, LocalRank rank) { started_.emplace(rank, now); }
  // A worker's process has ended, or could not be started.
  void noticed(TimePoint now, LocalRank rank);
  // This node was asked to stop: whatever ends after that is no failure of the job.
  void stopped(TimePoint now) { stopped_at_ = now; }
  // The round was broken, as this node has heard by now: whatever it notices later was not first.
  void drained(TimePoint now) { drained_at_ = now; }
  // Evidence of that end is being collected.
  void asked(LocalRank rank) { awaited_.insert(rank); }
  bool complete() const { return awaited_.empty(); }
  // The first of them that ended with 0 and had been sent no signal to end; as a failure that
  // counts only where the others lost a peer (left_early).
  std::optional<link::Failed> first_to_leave(const std::vector<Outcome>& outcomes,
                                             const Place& place) const;
  // The evidence is in: the verdict on it, which is made here and nowhere else, and what the
  // coordinator is to be told of it, if anything.
  struct Judged {
    DiagnosedEnd end;
    link::Failure failure;  // the end as a message and an event name it
    std::optional<link::Failed> told;
  };
  Judged judge(Evidence evidence, const Place& place);

 private:
  std::optional<link::Failed> told_of(const link::Failure& failure, const Place& place);

  std::map<LocalRank, TimePoint> started_;
  std::map<LocalRank, TimePoint> noticed_;
  std::set<LocalRank> awaited_;
  std::optional<TimePoint> stopped_at_;
  std::optional<TimePoint> drained_at_;
  std::size_t told_ = 0;       // never more than bounds::failures_told_max
  bool told_a_cause_ = false;  // and not consequences of somebody else's end alone
};

}  // namespace cpprun
