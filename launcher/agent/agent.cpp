// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/agent/agent_text.h"
#include "proto/bounds.h"

namespace cpprun {

Agent::Agent(Config config, AgentFacts facts)
    : config_(std::move(config)),
      facts_(std::move(facts)),
      link_({.heartbeat = config_.heartbeat(),
             .lease = config_.lease(),
             .local = facts_.hosts_coordinator}),
      self_launch_detector_(
          {.silence = bounds::own_world_patience, .sleepers = !facts_.program.interpreter.empty()}),
      places_(config_.endpoint, config_.places) {
  link_.be_one_of_several(turns());
}

Agent::Actions Agent::start(TimePoint now) {
  wait_for_a_seat(now, Phase::dialing);
  waiting_for_ = "no response yet";
  status_due_ = now + bounds::first_status_after;
  Actions actions;
  dial(now, actions);
  return actions;
}

Agent::Actions Agent::handle(TimePoint now, const Event& event) {
  Actions actions;
  if (phase_ == Phase::over) return actions;
  // Check the fence before reading: after a suspend, data in the socket is older than our lease.
  const bool is_fence = std::holds_alternative<agent::Fenced>(event);
  const bool fenced = !is_fence && fence_if_late(now, actions);
  if (phase_ == Phase::over || (fenced && std::holds_alternative<agent::Heard>(event))) {
    return actions;
  }
  std::visit([&](const auto& what) { on(now, what, actions); }, event);
  return actions;
}

// --- messages from the coordinator ---------------------------------------------------------------

void Agent::on(TimePoint now, const agent::Heard& event, Actions& actions) {
  if (!is_worth_hearing(now, event.message, actions)) return;
  if (phase_ == Phase::succeeded && !link_.lease_is_over(now)) seat_deadline_.reset();
  std::visit(Overloaded{
                 [&](const link::Waiting& m) {
                   waiting_for_ = m.reason;
                   // The round continued without this node, which has rejoined as a newcomer.
                   if (phase_ == Phase::succeeded) wait_for_a_seat(now, Phase::drained);
                   // A spare waits as long as the job lasts, because it may be needed at any time.
                   if (m.spare) {
                     seat_deadline_.reset();
                   } else if (!seat_deadline_) {
                     seat_deadline_ = now + config_.join_timeout;
                   }
                   if (phase_ == Phase::joining || phase_ == Phase::drained) {
                     tell_waiting(now, actions);
                   }
                 },
                 [&](const link::Refused& m) { refused(now, m.reason, actions); },
                 [&](const link::Sealed& m) { sealed(now, m, actions); },
                 [&](const link::Drain& m) { drain(now, m, actions); },
                 [&](const link::Finish& m) { finish(now, m, actions); },
                 [&](const link::Save& m) { save(now, m); },
                 [&](const link::Dismissed& m) { dismissed(m, actions); },
                 [&](const link::Record& m) { record(m, actions); },
                 [&](const link::Standby& m) { standby(now, m, actions); },
                 [&](const link::NotLeading& m) { not_leading(m); },
                 [&](const link::Led& m) { led(now, m, actions); },
                 [&](const link::Members& m) { members(now, m, actions); },
                 [&](const link::Heartbeat& m) { answered(now, m, actions); },
                 [&](const auto&) {
                   const std::string reason = "the master sent a message that only agents send";
                   actions.emplace_back(agent::HangUp{reason});
                   on(now, agent::LinkDown{reason}, actions);
                 },
             },
             event.message);
  speak_for_workers(event.message, actions);
  trust_seat_if_answered(now, actions);
}

// In a round, the coordinator rejects our claim to the seat: it belongs to another node, or this is
// another master.
void Agent::refused(TimePoint now, const std::string& why, Actions& actions) {
  const std::string reason =
      fmt::format("the master at {} rejected this node: {}", where_the_master_is(), why);
  if (facts_.hosts_coordinator && standby_) {
    // It is the coordinator in this process, and it has lost leadership.
    is_deposed_ = true;
    if (!in_round() || phase_ == Phase::succeeded) return step_down(now, actions);
    if (!exit_when_settled_ && !seat_lost_) lease_expired(now, why, actions);
    return;
  }
  if (!in_round()) return exit({.code = 1, .reason = reason}, actions);
  if (phase_ == Phase::succeeded) return exit({.code = 1, .reason = done_text(reason)}, actions);
  if (!exit_when_settled_ && !seat_lost_) lease_expired(now, reason, actions);
}

void Agent::sealed(TimePoint now, const link::Sealed& sealed, Actions& actions) {
  // A node that had succeeded and was cut off has rejoined as a newcomer when it asked.
  const bool went_on_without = phase_ == Phase::succeeded && sealed.round > sealed_->round;
  if (phase_ != Phase::joining && phase_ != Phase::drained && !went_on_without) return;
  sealed_ = sealed;
  has_had_seat_ = true;
  follow_standby(now, actions);
  said_in_round_.clear();
  pending_failures_ = {};
  settled_.reset();
  left_.reset();
  drained_ = {.round = sealed.round};
  worker_stats_reporter_.begin();
  drain_asked_ = false;
  job_ends_ = false;
  saving_.reset();
  phase_.become(Phase::running);
  seat_deadline_.reset();
  status_due_.reset();
  rivals_.stop();
  if (facts_.hosts_coordinator) self_launch_detector_.began(now);
  doubt_.reset();
  look_at_interfaces(sealed, actions);
  std::vector<WorkerSpec> specs = make_plan(config_, sealed, facts_.program, facts_.node);
  actions.emplace_back(agent::Prepare{specs});
  actions.emplace_back(agent::TellStarted{sealed, facts_.node.sockets});
  doubt_until_.reset();
  are_paused_ = false;
  asleep_ = {};
  const EndPolicy policy{
      .grace = config_.grace, .scope = config_.signal_scope, .stragglers = config_.stragglers};
  supervisor_.emplace(std::move(specs), policy, config_.beat_timeout);
  pass_on(now, supervisor_->start(now), actions);
}

void Agent::drain(TimePoint now, const link::Drain& drain, Actions& actions) {
  if (!sealed_ || drain.round != sealed_->round) return;
  job_ends_ = drain.ends_job;
  const bool releases = standby_ && !drain.keeps_vote && !std::exchange(drained_.asked, true);
  if (!drain.keeps_vote) may_vote_ = false;
  if (phase_ == Phase::drained) {
    drain_asked_ = true;
    if (releases) say(drained_, actions);
  }
  if (phase_ == Phase::running) {
    // The last worker may just have exited with 0, and the coordinator waits for our Drained.
    drain_asked_ = true;
    pending_failures_.drained(now);
    stop_workers(now, drain.reason, SIGTERM, actions);
  }
  if (phase_ == Phase::succeeded) {
    wait_for_a_seat(now, Phase::drained);
    if (left_) say(*left_, actions);
    say(link::Drained{.round = drain.round, .asked = drained_.asked}, actions);
  }
}

void Agent::finish(TimePoint now, const link::Finish& finish, Actions& actions) {
  // A user who allowed restarts needs to know why there is none.
  if (config_.restarts.may_restart() && finish.root) {
    actions.emplace_back(agent::TellNote{finish.reason});
  }
  const bool was_interrupted = stopped_by_ && !has_had_seat_;
  if (was_interrupted) return exit_by_signal(actions);
  if (!sealed_) actions.emplace_back(agent::TellNote{not_needed_text(finish.reason)});
  const auto time = time_note(finish);
  if (time && sealed_ && sealed_->group_rank == GroupRank{})
    actions.emplace_back(agent::TellNote{*time});
  agent::Exit last{.code = finish.exit_code,
                   .reason = finish.reason,
                   .root = finish.root,
                   .consequences = finish.consequences,
                   .consequence_count = finish.consequence_count,
                   .time = finish.time};
  if (phase_ != Phase::running) return exit(std::move(last), actions);
  exit_when_settled_ = std::move(last);
  stop_workers(now, finish.reason, SIGTERM, actions);
}

// --- the workers ---------------------------------------------------------------------------------

void Agent::on(TimePoint now, const agent::FromWorker& event, Actions& actions) {
  if (!supervisor_) return;
  if (const auto* started = std::get_if<supervisor::Started>(&event.event)) {
    pending_failures_.started(now, started->local_rank);
  } else if (const auto* exited = std::get_if<supervisor::Exited>(&event.event)) {
    pending_failures_.noticed(now, exited->local_rank);
  } else if (const auto* failed = std::get_if<supervisor::SpawnFailed>(&event.event)) {
    pending_failures_.noticed(now, failed->local_rank);
  } else if (const auto* beats = std::get_if<supervisor::HeartbeatsSeen>(&event.event)) {
    drained_ = {sealed_->round, unsaved_of(beats->readings), reached_of(beats->readings),
                drained_.asked};
  }
  const auto told =
      std::visit([](const auto& each) { return supervisor::Event{each}; }, event.event);
  pass_on(now, supervisor_->handle(worker_time(now), told), actions);
  const bool is_known = std::holds_alternative<supervisor::HeartbeatsSeen>(told);
  look_at_workers(!is_known && worker_stats_reporter_.changed(now), actions);
}

void Agent::stop_workers(TimePoint now, const std::string& reason, int signal, Actions& actions) {
  if (!supervisor_) return;
  unpause_workers(now, actions);
  pass_on(now, supervisor_->handle(worker_time(now), supervisor::Stop{reason, signal}), actions);
}

// Signal first and collect evidence later, so that no worker keeps computing behind a slow disk.
void Agent::pass_on(TimePoint now, const Supervisor::Actions& from, Actions& actions) {
  std::optional<Outcome> failed;
  bool is_ending = false;
  for (const supervisor::Action& action : from) {
    std::visit(
        Overloaded{
            [&](const supervisor::Failed& m) {
              actions.emplace_back(agent::TellFailed{m});
              failed = m.outcome;
              if (m.outcome.hung_for) pending_failures_.noticed(now, m.outcome.local_rank);
              pending_failures_.asked(m.outcome.local_rank);
            },
            [&](const supervisor::Draining& m) {
              actions.emplace_back(agent::TellDraining{m});
              is_ending = true;
            },
            [&](const supervisor::Killing& m) { actions.emplace_back(agent::TellKilling{m}); },
            [&](const supervisor::StillEnding& m) {
              actions.emplace_back(agent::TellNote{still_ending_text(m, stopped_by_)});
            },
            [&](const supervisor::Leftover& m) {
              actions.emplace_back(agent::TellNote{leftover_text(m, config_.grace)});
            },
            [&](const supervisor::Settled& m) { settled(now, m, actions); },
            [&](const auto& m) { actions.emplace_back(agent::Work{m}); },
        },
        action);
  }
  look_at_workers(is_ending && worker_stats_reporter_.changed(now), actions);
  // The coordinator is notified once the evidence is in: see on(Examined).
  if (failed) actions.emplace_back(agent::Examine{*failed, stray_interface_});
}

void Agent::look_at_world(TimePoint now, Actions& actions) {
  if (phase_ != Phase::running || drain_asked_ || stopped_by_) self_launch_detector_.over();
  if (self_launch_detector_.take_due(now)) actions.emplace_back(agent::LookAtWorld{});
}

void Agent::on(TimePoint now, const agent::WorldSeen& event, Actions& actions) {
  if (phase_ != Phase::running) return;
  const auto sentence = self_launch_detector_.judge(now, event.look);
  if (sentence) actions.emplace_back(agent::TellWarning{*sentence});
}

void Agent::examine(const Outcome& outcome, Actions& actions) {
  pending_failures_.asked(outcome.local_rank);
  actions.emplace_back(agent::Examine{outcome, stray_interface_});
}

void Agent::on(TimePoint now, const agent::Examined& event, Actions& actions) {
  if (!sealed_) return;
  Evidence evidence = event.evidence;
  if (const auto connection = failed_connection(evidence.last_lines)) {
    std::string& stray = evidence.host_facts.stray_interface;
    stray = unconnected_interface(facts_.interfaces, way_, facts_.node.environment, *connection)
                .value_or(stray);
  }
  auto judged = pending_failures_.judge(std::move(evidence), place());
  actions.emplace_back(agent::TellDiagnosed{std::move(judged.end), std::move(judged.failure)});
  if (judged.told) say(std::move(*judged.told), actions);
  conclude_if_examined(now, actions);
}

PendingFailures::Place Agent::place() const {
  return {.round = sealed_->round, .group_rank = sealed_->group_rank, .host = facts_.host};
}

// No worker of this attempt is alive here.
void Agent::settled(TimePoint now, const supervisor::Settled& settled, Actions& actions) {
  const std::optional<Outcome>& first = settled.first_failure;
  for (const Outcome& outcome : settled.outcomes) {
    const bool is_first = first && first->local_rank == outcome.local_rank;
    if (!outcome.good() && !is_first) examine(outcome, actions);
    // The worker may still be alive, so this node must not report that it has drained.
    if (outcome.given_up && !exit_when_settled_) {
      exit_when_settled_ = agent::Exit{.code = 1, .reason = unkillable_text(outcome)};
    }
  }
  if (settled.unswept && !exit_when_settled_) {
    actions.emplace_back(agent::TellNote{unswept_text()});
  }
  settled_ = settled;
  conclude_if_examined(now, actions);
}

// Report every failure before Drained. The coordinator would attribute a later one to another
// round.
void Agent::conclude_if_examined(TimePoint now, Actions& actions) {
  if (!settled_ || !pending_failures_.complete()) return;
  const supervisor::Settled settled = *std::exchange(settled_, std::nullopt);
  if (exit_when_settled_) {
    exit(*exit_when_settled_, actions);
    return;
  }
  if (seat_lost_) return rejoin(now, actions);
  left_ = pending_failures_.first_to_leave(settled.outcomes, place());
  const bool undisturbed = settled.drain_reason.empty() && !drain_asked_ && !stopped_by_;
  if (!settled.first_failure && undisturbed) {
    phase_.become(Phase::succeeded);
    may_vote_ = false;
    say(link::Succeeded{sealed_->round}, actions);
    return;
  }
  wait_for_a_seat(now, Phase::drained);
  if (left_) say(*left_, actions);
  say(drained_, actions);
  // A node that was asked to stop need not wait for the others to exit, unless it hosts the
  // coordinator.
  if (stopped_by_ && (!facts_.hosts_coordinator || insisted_)) exit_by_signal(actions);
}

// --- the end -------------------------------------------------------------------------------------

void Agent::exit(agent::Exit last, Actions& actions) {
  if (phase_ == Phase::over) return;
  phase_.become(Phase::over);
  if (sealed_) {
    last.group_rank = sealed_->group_rank;
    last.had_workers = true;
  }
  if (link_.up()) actions.emplace_back(agent::HangUp{last.reason});
  actions.emplace_back(std::move(last));
}

// --- time ----------------------------------------------------------------------------------------

Agent::Actions Agent::advance(TimePoint now) {
  Actions actions;
  if (phase_ == Phase::over) return actions;
  fence_if_late(now, actions);
  if (phase_ == Phase::over) return actions;
  check_link(now, actions);
  stand_if_due(now, actions);
  ask_how_it_ended(now, actions);
  if (supervisor_ && phase_ == Phase::running) {
    pass_on(now, supervisor_->advance(worker_time(now)), actions);
  }
  if (saves_alone_ && now >= saves_until()) end_saving(now, actions);
  save_if_due(now, actions);
  ask_for_rivals(now, actions);
  look_for_old_masters(now, actions);
  look_at_world(now, actions);
  if (status_due_ && *status_due_ <= now) {
    status_due_.reset();
    tell_doubt(actions);
    if (phase_ == Phase::dialing) {
      status_due_ = now + bounds::status_interval;
      tell_waiting(now, actions);
    }
  }
  const bool gives_up = seat_deadline_ && *seat_deadline_ <= now && phase_ != Phase::over;
  if (gives_up && !reads_first(now)) {
    const std::string reason =
        fmt::format("gave up after {:.0f} s: {}{}{}", in_seconds(config_.join_timeout),
                    whose_word_is_missing(), waiting_for_, doubt_ ? "; " + doubt_->sentence : "");
    if (stopped_by_) {
      exit_by_signal(actions);
    } else if (phase_ == Phase::succeeded) {  // no other node waits for us
      exit({.code = 1, .reason = done_text(reason)}, actions);
    } else {
      say(link::Leave{.signal = 0, .reason = reason}, actions);
      exit({.code = 1, .reason = reason}, actions);
    }
  }
  return actions;
}

std::optional<TimePoint> Agent::next_deadline() const {
  if (phase_ == Phase::over) return std::nullopt;
  std::optional<TimePoint> soonest;
  const auto consider = [&soonest](std::optional<TimePoint> deadline) {
    if (deadline && (!soonest || *deadline < *soonest)) soonest = deadline;
  };
  consider(link_.next_deadline());
  consider(rivals_.next_deadline());
  consider(self_launch_detector_.next_deadline());
  consider(status_due_);
  consider(seat_deadline_);
  if (supervisor_ && phase_ == Phase::running) {
    const auto due = supervisor_->next_deadline();
    if (due) consider(*due + asleep_);
  }
  if (saving_) consider(saving_->at);
  if (saves_alone_) consider(saves_until());
  if (const auto at = stands_at()) consider(*at);
  if (looks_for_masters()) consider(master_look_due_);
  if (const auto until = own_lead_ends_at()) consider(*until);
  if (link_.up() && !link_.local()) consider(link_.silent_at());
  if (has_a_seat_to_lose() || asks_how_it_ended()) {
    consider(doubt_until_.value_or(link_.lease_over_at()));
  }
  return soonest;
}

// If the deadline passed while this node was suspended, read pending messages first; once.
bool Agent::reads_first(TimePoint now) {
  if (has_read_first_ || now - *seat_deadline_ < bounds::coordinator_nap) return false;
  has_read_first_ = true;
  seat_deadline_ = now + bounds::coordinator_nap;
  return true;
}

void Agent::wait_for_a_seat(TimePoint now, Phase phase) {
  phase_.become(phase);
  has_read_first_ = false;
  // Only the coordinator knows the pause before a restart. This is its upper bound.
  const Duration pause = config_.restarts.pause_max();
  seat_deadline_ = now + config_.join_timeout + (phase == Phase::drained ? pause : Duration{});
  // When asked to stop, stay only long enough to find out who the leader is.
  if (stopped_by_ && phase == Phase::dialing) {
    seat_deadline_ = now + 2 * config_.lease() + bounds::hand_over_patience;
  }
}

void Agent::say(link::Message message, Actions& actions) {
  if (in_round()) said_in_round_.push_back(message);
  if (link_.up()) actions.emplace_back(agent::Say{std::move(message)});
}

bool Agent::in_round() const {
  return phase_ == Phase::running || phase_ == Phase::succeeded || phase_ == Phase::drained;
}

}  // namespace cpprun
