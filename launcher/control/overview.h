// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Jobs as text for people: all of them in a table, and one of them with its nodes and rounds. Pure:
// text out of values.

#include <string>
#include <vector>

#include "launcher/control/job_view.h"
#include "launcher/table.h"

namespace cpprun {

struct SeenJob {
  JobView job;
  std::string place;
};

// A node's row tells less where the terminal is narrow, and figures where somebody has them.
Table jobs_table(const std::vector<SeenJob>& jobs);
Table nodes_table(const std::vector<NodeView>& nodes, double now);
Table rounds_table(const JobView& job);

std::string list_text(const std::vector<SeenJob>& jobs, const Canvas& canvas);
std::string status_text(const JobView& job, const std::vector<NodeView>& nodes,
                        const Canvas& canvas);

// "job "a" has been running for 3 min: round 2, 4 of 4 nodes, 32 workers; 1 of 3 restarts is used".
std::string job_sentence(const JobView& job);
Tint tint_of(const std::string& state);
// "rank 3 on beta: SIGKILL (out_of_memory)".
std::string failure_text(const FailureView& failure);

}  // namespace cpprun
