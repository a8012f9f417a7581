// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Status as JSON: jobs, nodes, a daemon, and job events. Member names match docs/events.md where
// the meaning is the same; docs/http-api.md describes them. Times are seconds since 1970,
// durations are seconds.

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/rank.h"
#include "rendezvous/job/coordinator_actions.h"
#include "rendezvous/status/daemon_snapshot.h"
#include "rendezvous/status/snapshot.h"

namespace cpprun {

// The job of a cpprun, as that cpprun knows it. Empty texts are unknown.
struct HostedJob {
  std::string command = {};  // of its workers, without secrets
  std::string user = {};
  std::string log_directory = {};  // on the node that hosts the coordinator
};

// What a reply depends on besides the coordinator.
struct Viewer {
  std::string status_page = {};  // the address of the page that shows these jobs; empty: unknown
  bool may_control = false;      // may give commands, as far as is known
  HostedJob hosted = {};         // nothing in a cpprund
};

// `next` is the job behind which the next page starts; empty: this was the last page.
std::string jobs_json(const std::vector<JobSnapshot>& jobs, const std::optional<std::string>& next,
                      const ClockPair& moment, const Viewer& viewer = {});
std::string job_json(const JobDetails& details, const ClockPair& moment, const Viewer& viewer = {});
std::string nodes_json(const NodePage& page, const ClockPair& moment);
// What the workers were doing when that was last captured.
std::string stacks_json(const Job& job, const ClockPair& moment);
// A failure as in docs/events.md, without the agents' own text for its cause.
nlohmann::ordered_json shown_failure(const link::Failure& failure);
// A refusal in the form of all replies.
std::string error_json(const std::string& reason);

// A cpprund (docs/http-api.md).
std::string daemon_json(const DaemonSnapshot& daemon, const ClockPair& moment);

// A leader change as an event of docs/events.md, in one line. `host` is the host of the reporting
// cpprund.
std::string leader_changed_line(const LeaderChange& change, const std::string& host);

// Writes the members of an event behind those that all events have. Returns its name.
const char* add_event(const coordinator::NodeChange& change, nlohmann::ordered_json& json);
const char* add_event(const coordinator::Answered& answered, nlohmann::ordered_json& json);
const char* add_event(const link::Verdict& verdict, const std::string& stacks_file,
                      nlohmann::ordered_json& json);

// Job events of a daemon, as the objects of docs/events.md. A daemon has no workers and no rank: it
// reports its coordinator's actions, each once, however many nodes receive it.
class JobEvents {
 public:
  explicit JobEvents(std::string host) : host_(std::move(host)) {}

  // One line; empty if the action is no event or was reported before.
  std::optional<std::string> line(WallTime time, const std::string& job,
                                  const coordinator::Action& action);

 private:
  // What was reported of a job; dropped with the job.
  struct Told {
    RoundNumber sealed{};
    RoundNumber drained{};
    std::pair<RoundNumber, std::uint64_t> hung{};  // and the number of the capture
    bool ended = false;
  };

  // The name of the event; null if it is none.
  const char* add_message(const std::string& job, const link::Message& message,
                          nlohmann::ordered_json& json);

  std::string host_;
  std::map<std::string, Told> told_;
};

}  // namespace cpprun
