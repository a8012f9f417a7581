// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What there is to see, as JSON: jobs, a daemon, and the events of its jobs. Members are called as
// in docs/events.md where they mean the same; docs/operating.md describes them. Times are seconds
// since 1970, lengths are seconds.

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"
#include "rendezvous/job/coordinator_actions.h"
#include "rendezvous/status/daemon_snapshot.h"
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

// A cpprund as JSON, for whoever asks (docs/operating.md), and a change of the one that leads as an
// event of docs/events.md. Times are seconds since 1970, lengths are seconds.
std::string daemon_json(const DaemonSnapshot& daemon, const Moment& moment);

// One line; `host` is that of the cpprund that says so.
std::string leader_changed_line(const LeaderChange& change, const std::string& host);

// What happens to the jobs of a daemon, as the objects of docs/events.md. A daemon has no workers
// and no rank: it tells what its coordinator wants done, each thing once however many nodes hear
// it.
class JobEvents {
 public:
  explicit JobEvents(std::string host) : host_(std::move(host)) {}

  // One line; nothing where that is no event, or was told before.
  std::optional<std::string> line(WallTime time, const std::string& job,
                                  const coordinator::Action& action);

 private:
  // What was told of a job; gone with the job.
  struct Told {
    RoundNumber sealed{};
    RoundNumber drained{};
    bool ended = false;
  };

  std::string host_;
  std::map<std::string, Told> told_;
};

}  // namespace cpprun
