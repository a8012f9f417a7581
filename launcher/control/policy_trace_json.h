// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A history of failures, for `cpprunctl policy simulate`: what an `--events` file or a `--report`
// tells of a job that was (docs/events.md), or somebody has made up, a JSON object a line:
//
//   {"at": 3600, "cause": "hung", "host": "node-7", "rank": 3, "exit_code": 1, "step": 1200}
//
// `at` in seconds; all but `at` may be left out, and there are `signal`, `life` (seconds the round
// had run) and `checkpoint_step` as well. Nothing else: a member that is not known is an error.

#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/job/restart_policy.h"

namespace cpprun {

struct TracedFailure {
  TimePoint at{};  // since the beginning of the trace
  RestartPolicy::End end;
};

struct PolicyTrace {
  std::vector<TracedFailure> failures;  // what failed first in each round, in the order of time
  std::size_t rounds = 0;               // that were begun, as far as the trace tells
};

// `job` is the job that is meant, or how its name begins; empty: there is one. Fails where the text
// does not tell of every failure, or of more than one run.
Result<PolicyTrace> read_policy_trace(std::string_view text, std::string_view job);

}  // namespace cpprun
