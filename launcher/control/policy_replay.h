// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// `cpprunctl policy simulate`: a history of failures (PolicyTrace), and what a job's restart rules
// would have decided (PolicyReplay).

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
  TimePoint at{};  // since the start of the trace
  RestartPolicy::End end;
};

// A history of failures for `cpprunctl policy simulate`. It comes from the `--events` file or the
// `--report` of a past job (docs/events.md), or is hand-written with one JSON object per line:
//
//   {"at": 3600, "cause": "hung", "host": "node-7", "rank": 3, "exit_code": 1, "step": 1200}
//
// `at` is in seconds. All members but `at` are optional. The others are `signal`, `life` (seconds
// the round had run) and `checkpoint_step`. An unknown member is an error.
struct PolicyTrace {
  std::vector<TracedFailure> failures;  // the first failure of each round, ordered by time
  std::size_t rounds = 0;               // rounds started, as far as the trace shows
};

// `job` is the job's name or a prefix of it. Empty: the only job. Fails if the text does not
// contain every failure, or covers more than one run.
Result<PolicyTrace> read_policy_trace(std::string_view text, std::string_view job);

struct PolicyStep {
  TracedFailure failure;
  std::optional<RestartPolicy::Verdict> verdict;  // none: the job was already over
};

// What a job's restart rules would have decided for a history of failures, using the coordinator's
// own RestartPolicy. A round that the rules would not have started is reported as not reached.
struct PolicyReplay {
  RestartRules rules;
  std::vector<PolicyStep> steps;
  int restarts_used = 0;
  int restarts_left = 0;

  // The failure after which the job would have ended. Null if there is none.
  const PolicyStep* end() const;
};

PolicyReplay replay(const RestartRules& rules, const PolicyTrace& trace);

// A table and a summary sentence.
std::string replay_text(const PolicyReplay& replay, const Canvas& canvas);
std::string replay_json(const PolicyReplay& replay);

}  // namespace cpprun
