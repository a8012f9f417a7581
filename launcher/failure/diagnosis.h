// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// From evidence to words: how a worker ended, why, and what it said last.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/failure/causes.h"
#include "launcher/failure/error_file.h"
#include "launcher/failure/evidence.h"
#include "launcher/workers/supervisor.h"
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

}  // namespace cpprun
