// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What another program in the agent's process has to know of its round (AgentPast), so that an
// agent there continues with the same workers (AgentSuccession).

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_actions.h"
#include "launcher/plan/plan.h"
#include "launcher/workers/heartbeat_monitor.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "proto/result.h"
#include "rendezvous/endpoint.h"

namespace cpprun {

class Agent;

// The facts from which the agent of a running round is rebuilt: the new agent receives again the
// few events that led to its state, at their times, and its actions are dropped. So no state
// machine has a format of its own.
struct AgentPast {
  struct Worker {
    LocalRank local_rank{};
    int pid = 0;
    TimePoint started{};
    TimePoint since{};           // when it was started, or when it exited
    bool has_succeeded = false;  // it has exited with 0
    bool is_swept = false;       // and what it left behind has been ended
    friend bool operator==(const Worker&, const Worker&) = default;
  };

  Endpoint master;  // the coordinator that it follows
  agent::LinkUp up;
  TimePoint proof{};  // when we sent the latest message known to have arrived: the lease
  link::Sealed sealed;
  TimePoint sealed_at{};
  std::optional<link::Members> members = {};  // the latest, if there are several cpprunds
  std::optional<link::Standby> standby = {};  // of the round, if a node hosts the coordinator
  std::vector<Worker> workers = {};
  HeartbeatMonitor::StepTimes step_times = {};
  friend bool operator==(const AgentPast&, const AgentPast&) = default;
};

// Takes the past of an agent, and gives it to another one.
class AgentSuccession {
 public:
  // Fails with the reason why no other agent could continue now: only a round in which nothing is
  // starting or ending can be continued.
  static Result<AgentPast> past_of(const Agent& agent);
  // Brings a new agent, which has received nothing, to that state. It is called instead of start().
  // The link is down and is dialled at once. Returns the workers' specs. Fails if these facts do
  // not lead to a running round.
  static Result<std::vector<WorkerSpec>> resume(Agent& agent, TimePoint now, const AgentPast& past);
};

}  // namespace cpprun
