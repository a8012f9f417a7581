// SPDX-License-Identifier: BSD-3-Clause
// The part of a simulated world for changes of the coordinator: a cpprund with records, or a
// standby node.

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "tests/sim/world.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

// Restarts the process, or reboots the machine, which restarts its clock; records are kept.
void World::restart_coordinator(const Fault& fault) {
  const bool reboots = fault.value % 3 == 0;
  end_coordinator(reboots);
  if (reboots) coordinator_clock_.offset = -universe_.time.now().time_since_epoch();
  begin_coordinator_in(fault.lasts, true);
}

// The host believes that all nodes have the result.
void World::host_is_done(int place) {
  const auto connected = network_->connected_node(place);
  universe_.judge.must(!connected,
                       fmt::format("the host of the coordinator leaves while node {} is "
                                   "connected and waits for an answer",
                                   connected.value_or(0)));
  node(std::max(place, 0)).leave();
}

Program& World::coordinators_program(int place) {
  if (members_) return members_->at(place).program();
  if (place != master_place) return node(place).program();
  return universe_.scenario.daemon ? daemon_ : node(0).program();
}

CoordinatorHost* World::leading() {
  return members_ ? &members_->leading() : &*coordinator_;
}

CoordinatorHost* World::coordinator_at(int place) {
  if (members_) return &members_->at(place).host();
  if (place == master_place) return &*coordinator_;
  const auto found = standbys_.find(place);
  return found == standbys_.end() ? nullptr : found->second.get();
}

CoordinatorHost& World::stand_by(int number) {
  auto& standby = standbys_[number];
  if (standby != nullptr) return *standby;
  standby = std::make_unique<CoordinatorHost>(
      universe_, node(number).program(), node(number).clock(), number,
      CoordinatorHost::Hooks{
          .to_local_agent =
              [this, number](link::Message message) {
                node(number).post(agent::Heard{std::move(message)});
              },
          .done = [this, number] { host_is_done(number); },
          .leads_until = [this,
                          number](auto until) { node(number).post(agent::LeadsUntil{until}); },
          .leads = [this, number] { node(number).lead(); },
          .leads_again = [this, number] { node(number).lead_again(*standbys_.at(number)); }});
  standby->serve(*network_);
  return *standby;
}

bool World::is_led() const {
  return std::ranges::any_of(standbys_, [](const auto& each) {
    const Coordinator* const coordinator = each.second->coordinator();
    const Job* const job = coordinator == nullptr ? nullptr : coordinator->find(job_id(0));
    return job != nullptr && !job->is_deposed() && !job->over();
  });
}

bool World::is_hosted() {
  const auto runs = [](const Program& program) { return program.alive() && !program.stopped(); };
  if (members_) return members_->is_led();
  if (universe_.scenario.daemon) return runs(daemon_);
  return is_led() || runs(node(0).program());
}

// A restarted master that the leader cannot reach starts by itself.
bool World::may_miss_its_leader() const {
  const auto hides = [](const Fault& fault) {
    constexpr FaultKind kinds[] = {FaultKind::partition,          FaultKind::one_way_out,
                                   FaultKind::one_way_in,         FaultKind::loss,
                                   FaultKind::slow_network,       FaultKind::agent_stopped,
                                   FaultKind::coordinator_stopped};
    return std::ranges::find(kinds, fault.kind) != std::end(kinds);
  };
  if (!universe_.scenario.standby) return false;
  // Or it restarts a moment before there is a leader, and the owner of the job would be unclear.
  if (!standbys_.empty() && !is_led()) return true;
  return std::ranges::any_of(universe_.scenario.faults, hides);
}

// All nodes have known the standby for a while and have workers, or end them because one failed or
// a node left. The remaining nodes are enough for the standby's majority.
bool World::will_take_over() {
  const Scenario& scenario = universe_.scenario;
  const auto fails = std::ranges::count(scenario.faults, FaultKind::worker_exits, &Fault::kind);
  const auto hangs = std::ranges::count(scenario.faults, FaultKind::worker_hangs, &Fault::kind);
  // Nodes other than the master's that have left by now.
  const auto leave = std::ranges::count_if(scenario.faults, [this](const Fault& fault) {
    const bool ends = fault.kind == FaultKind::agent_killed ||
                      (fault.kind == FaultKind::agent_signalled && fault.value == SIGTERM);
    const bool was_before = fault.at < universe_.time.now().time_since_epoch();
    return ends && was_before && std::ranges::find(fault.nodes, 0) == fault.nodes.end();
  });
  if (!scenario.standby || std::ssize(scenario.faults) - fails - hangs - leave != 1) return false;
  // A lost node may cost a restart that is not available.
  const RestartRules& rules = scenario.jobs.front().restarts;
  const bool has_restarts = rules == RestartRules{.max = rules.max} && rules.max > 2 * fails;
  if (scenario.delay_max > 20ms || (fails > 0 && !has_restarts)) return false;
  if (rules.budget_for(link::node_lost) != nullptr) return false;
  const Coordinator* const coordinator = coordinator_->coordinator();
  const Job* const job = coordinator == nullptr ? nullptr : coordinator->find(job_id(0));
  if (job == nullptr || (leave == 0 && !job->leadership().standby_place())) return false;
  const Round& round = job->round();
  const auto needed = static_cast<std::size_t>(scenario.jobs.front().nodes_min);
  const TimePoint now = node(0).clock().local(universe_.time.now());
  if (leave > 0) {
    const auto stays = [](const auto& each) {
      return !each.second->local && !each.second->leaving;
    };
    // Whichever node left: the others have a majority, and had the time to learn of the new
    // standby.
    const auto voters = static_cast<std::size_t>(std::ranges::count_if(round.members(), stays));
    const bool is_majority = voters >= std::max(needed, votes_to_lead(voters + 1));
    const bool has_heard = job->since() && *job->since() + 1s < now;
    if (leave > 1 || !is_majority || !has_heard) return false;
  }
  const std::size_t running = round.count(cpprun::Member::State::running);
  const std::size_t drained = round.count(cpprun::Member::State::drained);
  const bool all_run = round.phase() == Round::Phase::sealed && *job->since() + 1s < now &&
                       running == round.seated();
  // Votes are given up when the last node has drained.
  const bool some_end = round.phase() == Round::Phase::draining && running > 0 &&
                        running + drained == round.seated() && !job->rounds().round_end().stop;
  return (all_run || some_end) && round.away() == 0 && round.seated() > needed;
}

// On a separate connection, which no fault disturbs.
void World::ask(int asker, int place, const link::WhoHosts& question) {
  universe_.time.later(universe_.scenario.delay_max, [this, asker, place, question] {
    CoordinatorHost* const there = coordinator_at(place);
    Program& program = node(std::max(place, 0)).program();
    if (there == nullptr || !program.alive()) return;
    program.receive([there, question, asker] { there->asked(question, address_of(asker)); });
  });
}

void World::end_standby(int number) {
  const auto found = standbys_.find(number);
  if (found == standbys_.end()) return;
  const Coordinator* const coordinator = found->second->coordinator();
  const bool led = coordinator != nullptr && coordinator->knows(job_id(0));
  found->second->end();
  network_->coordinator_ended(number);
  // Entries on the timeline may still use it.
  gone_standbys_.push_back(std::move(found->second));
  standbys_.erase(found);
  // A restarted master that was not found before starts another job of that name.
  if (led && !is_led() && master_restarted_) universe_.judge.coordinator_forgets(0);
}

}  // namespace cpprun::sim
