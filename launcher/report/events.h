// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What happens to a job on this node, as typed events. The agent and the runtime publish each of
// them once, and all listeners get it: the console (ConsoleMessages), the event file and the
// status page (EventLog), and the report (ReportFacts).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/failure/diagnosis.h"
#include "launcher/plan/interfaces.h"
#include "launcher/workers/supervisor.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/job/coordinator_actions.h"
#include "rendezvous/logging.h"

namespace cpprun::events {

// A message for the console only.
struct Note {
  std::string sentence;
  LogLevel level = LogLevel::info;
  friend bool operator==(const Note&, const Note&) = default;
};
struct JobStarted {
  std::vector<std::string> program;
  int nodes_min = 1;
  int nodes_max = 1;
  int workers = 1;  // on this node
};
struct RoundSealed {
  link::Sealed sealed;
  SocketInterfaces sockets = {};
  friend bool operator==(const RoundSealed&, const RoundSealed&) = default;
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
// This node's first failure, for the console: its diagnosis follows as WorkerFailed.
struct FirstFailure {
  Outcome outcome;
  std::string executable;
};
// A worker that failed, with its diagnosis.
struct WorkerFailed {
  link::Failure failure;
  DiagnosedEnd end;
  friend bool operator==(const WorkerFailed&, const WorkerFailed&) = default;
};
// That worker failed and is started again alone, after `pause`; the others run on.
struct WorkerRestarting {
  Rank rank;
  LocalRank local_rank;
  int attempt = 1;        // its restarts in this round
  int restart_count = 0;  // restarts of the whole job
  Duration pause{};
  std::string reason;  // "restart 2 of 5"
  friend bool operator==(const WorkerRestarting&, const WorkerRestarting&) = default;
};
// The job hangs: no rank made progress for `quiet`. The worker that is to blame fails next. Or a
// process group of PyTorch timed out.
struct HangFound {
  link::Verdict verdict;
  bool is_here = false;          // that worker runs on this node
  bool is_first_node = false;    // this is node 0
  std::string stacks_file = {};  // all that was read of this node's workers; empty: not written
  friend bool operator==(const HangFound&, const HangFound&) = default;
};
// The workers are being stopped.
using supervisor::Draining;
struct WorkerKilled {
  LocalRank local_rank;
  std::string last_seen;          // what it was doing; may be empty
  std::optional<Duration> grace;  // in which it did not exit; none: it was killed at once
};
struct Waiting {
  std::string reason;
  friend bool operator==(const Waiting&, const Waiting&) = default;
};
// A message of the coordinator, on the node that hosts it: nodes that joined, were lost or were
// rejected.
struct CoordinatorNoted {
  std::string text;
  LogLevel level = LogLevel::info;
  std::string hint = {};  // for the console
};
// The set of nodes has changed, on the node that hosts the coordinator.
using coordinator::NodeChange;
// The result of an operator's command, on the node that hosts the coordinator.
using coordinator::Answered;
// The coordinator in this process has judged the attempt that ended last; for the report.
struct RoundJudged {
  link::Failure root;
};
// A reply of the coordinator arrived after more than half of the slack that the lease leaves for
// delays.
struct LeaseNearlyMissed {
  Duration silence{};
  Duration lease{};
  Duration takeover_window{};  // after the lease
  friend bool operator==(const LeaseNearlyMissed&, const LeaseNearlyMissed&) = default;
};
// Leadership of the job moved to another cpprund of the cluster, or to another node.
struct LeaderChanged {
  Endpoint from;
  Endpoint to;
  std::uint64_t epoch = 0;  // 0: the leader is a node
  // How long a node that still holds its seat went without a reply. Zero: it held none.
  Duration silence{};
  bool keeps_workers = false;  // the new leader confirmed the round, so workers run on
  friend bool operator==(const LeaderChanged&, const LeaderChanged&) = default;
};
// Another program has taken the place of this agent's, in the same process.
struct AgentUpgraded {
  std::string from;  // versions
  std::string to;
  Duration took{};  // in which no program ran
  friend bool operator==(const AgentUpgraded&, const AgentUpgraded&) = default;
};
// Events that were dropped because the queue of the event file was full.
struct EventsLost {
  std::size_t count = 0;
};
// The last event, and the agent's last action.
struct JobEnded {
  int exit_code = 0;
  std::string reason;
  std::optional<link::Failure> root = {};
  // Failures in the whole job that followed from the root cause: a sample, and the total.
  std::vector<link::Consequence> consequences = {};
  int consequence_count = 0;
  std::optional<TimeUse> time = {};  // time accounting of all nodes
  int restarts = 0;                  // of the whole job; 0: not reported
  GroupRank group_rank = {};         // of this node
  friend bool operator==(const JobEnded&, const JobEnded&) = default;
};

// The job has ended like that.
inline JobEnded end_of(const link::Finish& finish) {
  return {.exit_code = finish.exit_code,
          .reason = finish.reason,
          .root = finish.root,
          .consequences = finish.consequences,
          .consequence_count = finish.consequence_count,
          .time = finish.time,
          .restarts = finish.restarts};
}

using Event =
    std::variant<Note, JobStarted, RoundSealed, WorkerStarted, WorkerNotStarted, WorkerExited,
                 FirstFailure, WorkerFailed, WorkerRestarting, HangFound, Draining, WorkerKilled,
                 Waiting, CoordinatorNoted, NodeChange, Answered, RoundJudged, LeaseNearlyMissed,
                 LeaderChanged, AgentUpgraded, EventsLost, JobEnded>;

}  // namespace cpprun::events
