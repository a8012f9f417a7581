// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What happens in a job as one JSON object per line, for --events: written as it happens, for tools
// that watch. docs/events.md has the schema. Pure: lines out of values.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"
#include "rendezvous/job/coordinator_actions.h"

namespace cpprun {

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
// A worker that ended badly, with the verdict on it.
struct WorkerFailed {
  link::Failure failure;
};
struct Draining {
  std::string reason;
  int signal = 0;
};
// It ignored the signal for the whole grace.
struct WorkerKilled {
  LocalRank local_rank;
  std::string last_seen;
};
struct Waiting {
  std::string reason;
};
// What the coordinator reports, on the node that hosts it: who came, who is lost, who was refused.
struct CoordinatorNoted {
  std::string text;
};
// Who is there has changed, on the node that hosts the coordinator.
struct NodeChanged {
  coordinator::NodeChange change;
};
// What an operator has asked of the job, on the node that hosts the coordinator.
struct Ordered {
  coordinator::Answered answered;
};
// The coordinator answered when most of the lease was over.
struct LeaseNearlyMissed {
  Duration silence{};
  Duration lease{};
};
// Another cpprund of a set leads the job.
struct LeaderChanged {
  std::string from;  // "a:29400"
  std::string to;
  std::uint64_t epoch = 0;
  Duration silence{};  // of whoever led, as this node's seat has known it; zero: it had none
};
// Events that found no room while nobody read them.
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

// Who writes the event log. It is in every line, so that lines from many nodes can be mixed.
struct EventSource {
  std::string job;
  std::string host;
  std::string executable;
};

class EventLog {
 public:
  explicit EventLog(EventSource source) : source_(std::move(source)) {}

  // One line with its newline. The round and the node are those of the last RoundSealed.
  std::string line(WallTime time, const event_log::Event& event);

 private:
  EventSource source_;
  RoundNumber round_{};
  GroupRank group_rank_{};
};

}  // namespace cpprun
