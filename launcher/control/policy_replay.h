// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the rules of a job would have decided of a history of failures: the coordinator's own
// RestartPolicy, played on it. A round that the rules would not have begun is told as not reached.

#include <optional>
#include <string>
#include <vector>

#include "launcher/control/policy_trace_json.h"
#include "launcher/table.h"
#include "proto/restart_rules.h"

namespace cpprun {

struct PolicyStep {
  TracedFailure failure;
  std::optional<RestartPolicy::Verdict> verdict;  // nothing: the job was over by then
};

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
