// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// From evidence to words: how a worker ended, why, and what it said last; and all bad ends of one
// attempt on this node (PendingFailures).

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
#include "proto/ids.h"
#include "proto/link/message.h"
#include "proto/signal_names.h"
#include "rendezvous/job/round_outcome.h"

namespace cpprun {

struct Diagnosis {
  std::string ending;        // "exited with code 3"
  std::string message;       // one sentence: from error.json, the stage, or what was said last
  std::string traceback;     // from error.json; may be empty
  std::string cause;         // an id of causes.h; empty only for a good end
  std::string reason;        // the cause in a clause, with what this case adds to it
  std::string advice;        // what to do
  bool consequence = false;  // it is known to follow from somebody else's end
  friend bool operator==(const Diagnosis&, const Diagnosis&) = default;
};

// "exited with code 3", "was killed by SIGSEGV (segmentation fault)".
std::string to_text(const link::ExitStatus& status);
// The same for an outcome: also "could not be started: …" and "was ended by us with SIGTERM".
std::string to_text(const Outcome& outcome, const std::string& executable);

// The cause of a worker that ended as cpprun told it to.
inline constexpr std::string_view told_to_end = "told_to_end";

// A worker's bad end with the verdict on it. There is one verdict: only the PendingFailures of the
// attempt can make this value, and the report, the event log and the coordinator's message are
// handed it. Each used to judge the evidence for itself.
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

// How that worker itself ended. A worker that left early ended well; its failure carries the code
// that the job ends with.
link::ExitStatus own_status(const link::Failure& failure);

// The advice of a cause, with what was executed in its place.
std::string cause_advice(const Cause& cause, const std::string& executable);

// What the coordinator is told of it.
link::Failure failure_of(const DiagnosedEnd& end, GroupRank group_rank, const std::string& host);

// One attempt's bad ends on this node: the verdict on each, what the coordinator hears of them,
// when each was noticed; and which worker ended well first. The first is reported at once, while
// the others still have to be ended. Later ones are reported too, unless we ended them ourselves:
// the first to be noticed need not be the one to blame.
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
