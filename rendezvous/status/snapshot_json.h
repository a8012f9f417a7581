// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What there is to see, as JSON. Members are called as in docs/events.md where they mean the same;
// docs/operating.md describes them. Times are seconds since 1970, lengths are seconds.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/status/snapshot.h"

namespace cpprun {

// `next`: the job behind which the next page begins; nothing: these were the last.
std::string jobs_json(const std::vector<JobSnapshot>& jobs, const std::optional<std::string>& next,
                      const Moment& moment);
std::string job_json(const JobDetails& details, const Moment& moment);
std::string nodes_json(const NodePage& page, const Moment& moment);
// A failure as in docs/events.md, without the words that agents have for its cause.
nlohmann::ordered_json shown_failure(const link::Failure& failure);
// A refusal, in the form of all answers.
std::string error_json(const std::string& reason);

}  // namespace cpprun
