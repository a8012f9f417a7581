// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/agent_past.h"

#include <chrono>
#include <variant>

#include "launcher/agent/agent.h"

namespace cpprun {

Result<AgentPast> AgentSuccession::past_of(const Agent& agent) {
  switch (agent.phase_) {
    case Agent::Phase::dialing:
    case Agent::Phase::joining:
      return failure("this node waits for a place in a round");
    case Agent::Phase::succeeded:
      return failure("the workers of this node have exited");
    case Agent::Phase::drained:
      return failure("the next round is being agreed");
    case Agent::Phase::over:
      return failure("the job is over");
    case Agent::Phase::running:
      break;
  }
  const bool is_ending = agent.drain_asked_ || agent.stopped_by_ || agent.seat_lost_ ||
                         agent.job_ends_ || agent.awaits_stacks_ || agent.is_deposed_;
  if (is_ending) return failure("its workers are being stopped");
  if (!agent.held_back_.empty() || agent.link_.awaits_confirmation()) {
    return failure(
        "the coordinator has not confirmed this node's place in the round yet; try again in a few "
        "seconds");
  }
  if (agent.standby_.is_here() || (agent.facts_.hosts_coordinator && agent.standby_.exists())) {
    return failure(
        "this node is the coordinator of a job that has a standby, or is that standby; only the "
        "other nodes can be upgraded (--standby=none: all nodes)");
  }
  if (!agent.workers_.is_steady()) {
    return failure("its workers are being started, examined or stopped");
  }
  // AgentPast has neither the workers' connections to RoundSocket nor the attempts of workers.
  if (agent.config_.restarts.reconfigures) {
    return failure("a job with --on-failure=reconfigure cannot be upgraded");
  }
  if (agent.workers_.has_restarted_alone()) {
    return failure(
        "a worker of this node was restarted alone in this round (--restart-scope=worker)");
  }
  AgentPast past = agent.past_;
  past.master = agent.config_.endpoint;
  past.proof = agent.link_.proof();
  past.sealed = *agent.sealed_;
  past.workers.clear();
  for (const WorkerView& each : agent.workers_.views()) {
    past.workers.push_back({.local_rank = each.local_rank,
                            .pid = each.pid,
                            .started = agent.workers_.started_at(each.local_rank),
                            .since = each.since,
                            .has_succeeded = each.state == WorkerState::succeeded});
  }
  past.step_times = agent.workers_.step_times();
  return past;
}

Result<std::vector<WorkerSpec>> AgentSuccession::resume(Agent& agent, TimePoint now,
                                                        const AgentPast& past) {
  // They were performed by the other program.
  const auto drop = [](const Agent::Actions&) {};
  const TimePoint then = past.sealed_at;
  std::vector<WorkerSpec> specs;
  drop(agent.start(then));
  drop(agent.handle(then, past.up));
  if (past.members) drop(agent.handle(then, agent::Heard{*past.members}));
  for (const Agent::Action& action : agent.handle(then, agent::Heard{past.sealed})) {
    if (const auto* const prepare = std::get_if<agent::Prepare>(&action)) specs = prepare->specs;
  }
  if (agent.phase_ != Agent::Phase::running) return failure("its round cannot be continued");
  if (past.standby) drop(agent.handle(then, agent::Heard{*past.standby}));
  // The rest bypasses the agent, which would find its lease expired since then.
  Agent::Actions done;
  for (const AgentPast::Worker& each : past.workers) {
    const auto tell = [&](TimePoint at, const supervisor::ProcessEvent& event) {
      agent.workers_.handle(at, event, done);
    };
    tell(each.started, supervisor::Started{each.local_rank, each.pid});
    if (each.has_succeeded) tell(each.since, supervisor::Exited{each.local_rank, {}, {}});
    if (each.is_swept) tell(each.since, supervisor::GroupGone{each.local_rank});
  }
  agent.workers_.learn(past.step_times);
  if (!agent.workers_.is_steady()) return failure("the state of its workers cannot be continued");
  agent.link_.answered(now, std::chrono::floor<link::AgentTime>(past.proof.time_since_epoch()));
  agent.link_down(now, agent::LinkDown{"the program of this agent was replaced"},
                  /*fell_silent=*/false);
  agent.link_.dial_by(now);
  agent.past_ = past;
  return specs;
}

}  // namespace cpprun
