// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Between a coordinator's JSON and what people and scripts are shown.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/job_view.h"
#include "launcher/control/wish.h"
#include "proto/result.h"

namespace cpprun {

struct JobsView {
  std::vector<JobView> jobs;
  std::optional<std::string> next = {};  // more follow behind that one
};

Result<JobsView> jobs_view(std::string_view text);
Result<JobView> job_view(std::string_view text);
Result<NodesView> nodes_view(std::string_view text);

// What an order's answer says: what was done, or why it was not.
std::string said_in(std::string_view text);
std::string error_in(std::string_view text);
// What an order says: the body of its POST.
std::string order_json(const Wish& wish);

// For --json. One line each: the jobs of several answers in one, each with where it is seen; a job
// with its nodes; the end of a job.
struct SeenAnswer {
  std::string place;
  std::string text;  // or why there is none
  bool has_answered = true;
};
std::string list_json(const std::vector<SeenAnswer>& answers);
// `daemon`: what hosts it, as that has said; empty: a cpprun does.
std::string status_json(std::string_view job, const std::vector<std::string>& node_pages,
                        std::string_view daemon = {});
// The daemons that were found, each as it has said, and all jobs.
std::string daemons_json(const std::vector<SeenAnswer>& daemons,
                         const std::vector<SeenAnswer>& answers);
std::string ending_json(const std::string& job, int exit_code, const std::string& reason);
std::string said_json(const std::string& said);

}  // namespace cpprun
