// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Turns evidence into text: how a worker ended, why, and its last output. PendingFailures holds all
// failures of one attempt on this node.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/failure/causes.h"
#include "launcher/failure/evidence.h"
#include "launcher/workers/supervisor.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "proto/signal_names.h"
#include "rendezvous/job/round_outcome.h"

namespace cpprun {

struct Diagnosis {
  std::string ending;        // "exited with code 3"
  std::string message;       // one sentence: from error.json, the start stage, or the last output
  std::string traceback;     // from error.json; may be empty
  std::string cause;         // an id from causes.h; empty only if the worker succeeded
  std::string reason;        // the cause as a clause, with details of this case
  std::string advice;        // what the user can do
  bool consequence = false;  // known to follow from another worker's failure
  friend bool operator==(const Diagnosis&, const Diagnosis&) = default;
};

// "exited with code 3", "was killed by SIGSEGV (segmentation fault)".
std::string to_text(const link::ExitStatus& status);
// The same for an outcome. Also covers failed starts and workers that cpprun ended.
std::string to_text(const Outcome& outcome, const std::string& executable);

// The cause of a worker that ended because cpprun sent it a signal.
inline constexpr std::string_view told_to_end = "told_to_end";

// A failed worker's evidence with its diagnosis. Only PendingFailures can create this value. The
// report, the event log and the message to the coordinator all use it, so they cannot disagree.
class DiagnosedEnd {
 public:
  const Evidence& evidence() const { return evidence_; }
  const Diagnosis& diagnosis() const { return diagnosis_; }
  friend bool operator==(const DiagnosedEnd&, const DiagnosedEnd&) = default;

 private:
  friend class PendingFailures;
  explicit DiagnosedEnd(Evidence evidence);

  Evidence evidence_;
  Diagnosis diagnosis_;
};

// How the worker itself ended. A worker that left early exited with 0, but its failure carries the
// exit code of the job.
link::ExitStatus own_status(const link::Failure& failure);

// The advice of a cause, with {program} replaced by `executable`.
std::string cause_advice(const Cause& cause, const std::string& executable);

// The failure as it is sent to the coordinator.
link::Failure failure_of(const DiagnosedEnd& end, GroupRank group_rank, const std::string& host);

// The failures of one attempt on this node: the diagnosis of each, what to report to the
// coordinator, when each was noticed, and which worker exited with 0 first. The first failure is
// reported at once, while the other workers are still being stopped. Later failures are reported
// too, unless cpprun killed the worker itself: the first failure noticed need not be the root
// cause.
class PendingFailures {
 public:
  // Identifies the attempt and this node in it.
  struct Attempt {
    RoundNumber round;
    GroupRank group_rank;
    std::string host;
    bool restarts_alone = false;  // each failure is reported: a worker waits for the reply
  };

  void started(TimePoint now, LocalRank rank);
  // For a worker that was started.
  TimePoint started_at(LocalRank rank) const { return started_.at(rank); }
  // A worker's process has ended or could not be started.
  void noticed(TimePoint now, LocalRank rank);
  // That worker is started again alone. What failed until now did not end the attempt.
  void restarted(LocalRank rank);
  // This node was asked to stop: workers that end later do not count as failures of the job.
  void stopped(TimePoint now) { stopped_at_ = now; }
  // This node has learned that the round is broken: failures it notices later were not first.
  void drained(TimePoint now) {
    if (!drained_at_) drained_at_ = now;
  }
  // Evidence for that worker is being collected.
  void asked(LocalRank rank) { awaited_.insert(rank); }
  bool complete() const { return awaited_.empty(); }
  // The first worker that exited with 0 without having been sent a signal. It is returned as a
  // failure (left_early) that counts only if other workers lost a peer.
  std::optional<link::Failed> first_to_leave(const std::vector<Outcome>& outcomes,
                                             const Attempt& place) const;
  // The evidence is in. Makes the diagnosis (the only place that does) and decides what to report
  // to the coordinator, if anything.
  struct Judged {
    DiagnosedEnd end;
    link::Failure failure;  // the failure as sent in messages and events
    std::optional<link::Failed> told;
  };
  Judged judge(Evidence evidence, const Attempt& place);

 private:
  std::optional<link::Failed> told_of(const link::Failure& failure, const Attempt& place);

  std::map<LocalRank, TimePoint> started_;
  std::map<LocalRank, TimePoint> noticed_;
  std::set<LocalRank> awaited_;
  std::optional<TimePoint> stopped_at_;
  std::optional<TimePoint> drained_at_;
  std::size_t told_ = 0;       // at most bounds::failures_told_max
  bool told_a_cause_ = false;  // a failure that is not a consequence of another was reported
};

}  // namespace cpprun
