// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// `cpprunctl policy simulate`: a history of failures (PolicyTrace), and what the rules of a job
// would have decided of it (PolicyReplay).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/table.h"
#include "proto/clock.h"
#include "proto/restart_rules.h"
#include "proto/result.h"
#include "rendezvous/job/restart_policy.h"

namespace cpprun {

struct TracedFailure {
  TimePoint at{};  // since the beginning of the trace
  RestartPolicy::End end;
};

// A history of failures, for `cpprunctl policy simulate`: what an `--events` file or a `--report`
// tells of a job that was (docs/events.md), or somebody has made up, a JSON object a line:
//
//   {"at": 3600, "cause": "hung", "host": "node-7", "rank": 3, "exit_code": 1, "step": 1200}
//
// `at` in seconds; all but `at` may be left out, and there are `signal`, `life` (seconds the round
// had run) and `checkpoint_step` as well. Nothing else: a member that is not known is an error.
struct PolicyTrace {
  std::vector<TracedFailure> failures;  // what failed first in each round, in the order of time
  std::size_t rounds = 0;               // that were begun, as far as the trace tells
};

// `job` is the job that is meant, or how its name begins; empty: there is one. Fails where the text
// does not tell of every failure, or of more than one run.
Result<PolicyTrace> read_policy_trace(std::string_view text, std::string_view job);

struct PolicyStep {
  TracedFailure failure;
  std::optional<RestartPolicy::Verdict> verdict;  // nothing: the job was over by then
};

// What the rules of a job would have decided of a history of failures: the coordinator's own
// RestartPolicy, played on it. A round that the rules would not have begun is told as not reached.
struct PolicyReplay {
  RestartRules rules;
  std::vector<PolicyStep> steps;
  int restarts_used = 0;
  int restarts_left = 0;

  // The failure after which the job would have ended; nothing: after none.
  const PolicyStep* end() const;
};

PolicyReplay replay(const RestartRules& rules, const PolicyTrace& trace);

// A table, and a sentence of what it comes to.
std::string replay_text(const PolicyReplay& replay, const Canvas& canvas);
std::string replay_json(const PolicyReplay& replay);

}  // namespace cpprun
