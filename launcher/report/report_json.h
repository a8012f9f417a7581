// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// JSON of this directory: the events of a job for --events, one object per line, and failures,
// which are the same in the events and in the report. docs/events.md has the schema. Pure.

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/failure/diagnosis.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/job/coordinator_actions.h"

namespace cpprun {

// Seconds since 1970 with a fraction.
double unix_seconds(WallTime time);

// The members that every failure has: rank, local_rank, node, host, pid, exit_code, signal, time,
// message, cause, reason, advice, consequence.
nlohmann::ordered_json to_json(const link::Failure& failure, const std::string& executable);

// A message for a member of JSON: "fact\n  hint: what to do" becomes "fact; what to do".
std::string on_one_line(std::string message);

// Serializes `json`. Invalid UTF-8 is replaced, since worker output may contain it.
std::string to_text(const nlohmann::ordered_json& json, int indent = -1);

namespace event_log {

struct JobStarted {
  std::vector<std::string> program;
  int nodes_min = 1;
  int nodes_max = 1;
  int workers = 1;  // on this node
};
struct RoundSealed {
  link::Sealed sealed;
};
struct WorkerStarted {
  Rank rank;
  LocalRank local_rank;
  int pid = 0;
};
struct WorkerNotStarted {
  Rank rank;
  LocalRank local_rank;
  std::string reason;
};
struct WorkerExited {
  Rank rank;
  LocalRank local_rank;
  int pid = 0;
  link::ExitStatus status;
};
// A worker that failed, with its diagnosis.
struct WorkerFailed {
  link::Failure failure;
};
struct Draining {
  std::string reason;
  int signal = 0;
};
// It ignored the signal to stop for the whole grace period.
struct WorkerKilled {
  LocalRank local_rank;
  std::string last_seen;
};
struct Waiting {
  std::string reason;
};
// A message of the coordinator, on the node that hosts it: nodes that joined, were lost or were
// rejected.
struct CoordinatorNoted {
  std::string text;
};
// The set of nodes has changed, on the node that hosts the coordinator.
struct NodeChanged {
  coordinator::NodeChange change;
};
// The result of an operator's command, on the node that hosts the coordinator.
struct Ordered {
  coordinator::Answered answered;
};
// The coordinator replied only after most of the lease had passed.
struct LeaseNearlyMissed {
  Duration silence{};
  Duration lease{};
};
// Another cpprund became the leader of the job.
struct LeaderChanged {
  std::string from;  // "a:29400"
  std::string to;
  std::uint64_t epoch = 0;
  Duration silence{};  // how long this node had no contact with the old leader; 0: unknown
};
// Events that were dropped because the queue was full.
struct EventsLost {
  std::size_t count = 0;
};
struct JobEnded {
  int exit_code = 0;
  std::string reason;
  std::optional<link::Failure> root = {};
};

using Event =
    std::variant<JobStarted, RoundSealed, WorkerStarted, WorkerNotStarted, WorkerExited,
                 WorkerFailed, Draining, WorkerKilled, Waiting, CoordinatorNoted, NodeChanged,
                 Ordered, LeaseNearlyMissed, LeaderChanged, EventsLost, JobEnded>;

}  // namespace event_log

// Identifies the node in every line, so that logs of several nodes can be merged.
struct EventSource {
  std::string job;
  std::string host;
  std::string executable;
};

// Formats the events of a job for --events: one line each, for monitoring tools.
class EventLog {
 public:
  explicit EventLog(EventSource source) : source_(std::move(source)) {}

  // One line with its newline. Round and node are those of the last RoundSealed.
  std::string line(WallTime time, const event_log::Event& event);

 private:
  EventSource source_;
  RoundNumber round_{};
  GroupRank group_rank_{};
};

}  // namespace cpprun
