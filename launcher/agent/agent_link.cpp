// SPDX-License-Identifier: BSD-3-Clause
// How the agent joins, how it keeps its seat, and what it does after losing it. The rest of the
// agent is in agent.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/agent/agent.h"
#include "launcher/agent/agent_text.h"
#include "proto/bounds.h"

namespace cpprun {

namespace {

// How soon a new master is noticed while workers save without a master.
constexpr Duration dial_pause_while_saving = std::chrono::milliseconds(100);

}  // namespace

void Agent::on(TimePoint now, const agent::LinkUp& event, Actions& actions) {
  if (event.local_store_port) facts_.node.local_store_port = *event.local_store_port;
  if (saves_alone_) end_saving(now, actions);
  refused_at_.reset();
  if (phase_ == Phase::dialing) {
    const auto& address = config_.local_addr ? *config_.local_addr : event.local_address;
    auto sockets = choose_interfaces(facts_.interfaces, address, config_.nodes_max == 1,
                                     facts_.node.environment);
    if (!sockets) {
      exit({.code = usage_exit_code, .reason = sockets.error().reason}, actions);
      return;
    }
    facts_.node.sockets = std::move(*sockets);
    local_address_ = address;
    phase_.become(Phase::joining);
    look_at_place(now, event.master_addresses, actions);
  }
  if (seat_lost_) {
    // Nothing may be sent before the last worker is gone.
    actions.emplace_back(agent::HangUp{*seat_lost_});
    link_lost(now);
    return;
  }
  link_.came_up(now, epoch_ != 0 && in_round());
  has_heard_ = false;
  speaks_for_workers_ = false;
  const JoinState state{.after = sealed_ ? sealed_->round : RoundNumber{},
                        .idle = phase_ == Phase::drained || phase_ == Phase::succeeded,
                        .done = phase_ == Phase::succeeded,
                        .sent = link_.heartbeat(now).sent,
                        .vote = vote_on_this_link(actions),
                        .epoch = epoch_,
                        .fresh = !has_had_seat_};
  actions.emplace_back(agent::Say{join_message(config_, facts_, state)});
  // Messages that the coordinator may have missed while the link was down. It ignores known ones.
  for (const link::Message& message : said_in_round_) actions.emplace_back(agent::Say{message});
}

// The other nodes are known now, so check which interfaces reach them.
void Agent::look_at_interfaces(const link::Sealed& sealed, Actions& actions) {
  way_ = {local_address_, sealed.neighbour};
  const WayToOthers& way = way_;
  SocketInterfaces& sockets = facts_.node.sockets;
  if (const auto better = better_than_loopback(facts_.interfaces, way)) {
    for (auto* const each : {&sockets.gloo, &sockets.tensorpipe, &sockets.nccl}) {
      if (*each) *each = *better;
    }
    if (sockets.gloo) sockets.said = *better;
  }
  const auto stray = stray_interface(facts_.interfaces, way, facts_.node.environment);
  if (stray && *stray != stray_interface_) actions.emplace_back(agent::TellWarning{*stray});
  stray_interface_ = stray.value_or("");
}

// On the master: check whether other nodes can reach it at the address they were given.
void Agent::look_at_place(TimePoint now, const std::vector<std::string>& addresses,
                          Actions& actions) {
  if (!facts_.hosts_coordinator) return;
  doubt_ = doubt_of_master(config_, addresses, facts_.interfaces);
  if (doubt_ && doubt_->strong) actions.emplace_back(agent::TellWarning{doubt_->sentence});
  if (config_.nodes_max == 1) return;
  rivals_.look_at(now, those_of_others(addresses, facts_.interfaces));
}

void Agent::ask_for_rivals(TimePoint now, Actions& actions) {
  auto addresses = rivals_.take_due(now);
  if (addresses.empty()) return;
  actions.emplace_back(agent::AskWhoHosts{
      std::move(addresses),
      config_.endpoint.port,
      {.job = config_.job, .host = facts_.host, .pid = facts_.pid, .agent = facts_.agent}});
}

void Agent::on(TimePoint, const agent::Answered& event, Actions& actions) {
  if (in_round() || looks_for_masters()) return;
  const DuplicateMasterVerdict verdict = judge_rival(config_, facts_, event.hosts);
  rivals_.stop();  // The answer will not change within the next few seconds.
  if (verdict.same_job) return exit({.code = 1, .reason = verdict.sentence}, actions);
  if (!verdict.sentence.empty()) actions.emplace_back(agent::TellWarning{verdict.sentence});
}

// Nodes are missing, and the master's address may be the reason.
void Agent::tell_doubt(Actions& actions) {
  if (phase_ != Phase::joining || !doubt_ || doubt_->strong) return;
  actions.emplace_back(agent::TellWarning{doubt_->sentence});
}

void Agent::on(TimePoint now, const agent::LinkDown& event, Actions&) {
  link_down(now, event, /*fell_silent=*/false);
}

void Agent::link_down(TimePoint now, const agent::LinkDown& event, bool fell_silent) {
  if (link_.up()) fell_silent_ = fell_silent;
  if (event.refused && !fell_silent_) {
    refused_at_ = now;
  } else if (!saves_alone_) {
    refused_at_.reset();
  }
  link_lost(now, fell_silent);
  if (saves_alone_) link_.dial_by(now + dial_pause_while_saving);  // if refused, saving continues
  ask_standby_again(now);
  waiting_for_ = event.reason;
  if (phase_ == Phase::dialing && facts_.hosts_coordinator) {
    waiting_for_ = unresolved_text(config_, event.reason, facts_.interfaces);
  } else if (turns()) {
    waiting_for_ = to_string(places_.at()) + ": " + event.reason;
  } else if (phase_ == Phase::dialing && event.refused) {
    waiting_for_ += hint_for_dialler(config_, event.tried, facts_.interfaces);
  }
  if (phase_ == Phase::joining) {
    phase_.become(Phase::dialing);
    if (!vote_) consider_voting();
    // A spare had no deadline while the master was there.
    if (!seat_deadline_) wait_for_a_seat(now, Phase::dialing);
  }
  if (!status_due_ && phase_ == Phase::dialing) status_due_ = now + bounds::first_status_after;
}

void Agent::tell_waiting(TimePoint now, Actions& actions) {
  const std::string left = seat_deadline_ ? "; " + seconds_left(now, *seat_deadline_) : "";
  actions.emplace_back(agent::TellWaiting{whose_word_is_missing() + waiting_for_ + left});
}

std::string Agent::whose_word_is_missing() const {
  const bool asks = phase_ == Phase::dialing || phase_ == Phase::succeeded;
  if (!asks || facts_.hosts_coordinator) return {};
  if (turns()) return fmt::format("no leader among {}: ", to_string(places_.all()));
  return fmt::format("no response from the master at {}: ", where_the_master_is());
}

void Agent::check_link(TimePoint now, Actions& actions) {
  const CoordinatorLink::Due due = link_.take_due(now);
  if (due.heartbeat) actions.emplace_back(agent::Say{heartbeat(now)});
  if (due.dial) dial(now, actions);
  if (link_.silent(now)) {
    const std::string reason =
        fmt::format("no message from the master for {} s", in_seconds(link_.silence_max()));
    actions.emplace_back(agent::HangUp{.reason = reason, .breaks = true});
    link_down(now, agent::LinkDown{reason}, /*fell_silent=*/true);
  }
}

void Agent::answered(TimePoint now, const link::Heartbeat& heartbeat, Actions& actions) {
  const Duration silence = link_.since_last_ack(now);
  const TimePoint proof = link_.proof();
  link_.answered(now, heartbeat.sent, heartbeat.moment);
  const bool has_workers = phase_ == Phase::running || phase_ == Phase::succeeded;
  if (heartbeat.watch > Duration{} && has_workers) {
    look_at_workers(worker_stats_reporter_.watch(now, heartbeat.watch), actions);
  }
  // Several replies at once, after a pause, are one near miss.
  if (link_.proof() == proof || !has_a_seat_to_lose()) return;
  // If the silence was longer, this node was suspended. That is already reported and is not a near
  // miss.
  const bool is_late = silence > (config_.lease() + config_.heartbeat()) / 2;
  if (is_late && silence < config_.lease() + link_.patience()) {
    actions.emplace_back(agent::TellNearMiss{silence, config_.lease(), link_.patience()});
  }
}

bool Agent::has_a_seat_to_lose() const {
  return in_round() && phase_ != Phase::succeeded && !exit_when_settled_ && !seat_lost_ &&
         !link_.local();
}

std::optional<TimePoint> Agent::overdue_at() const {
  if (const auto until = own_lead_ends_at()) {
    return *until + link_.margin() / 2;
  }
  if (saves_alone_) return saves_until() + link_.margin() / 2;
  if (!has_a_seat_to_lose()) return std::nullopt;
  if (doubt_until_) return *doubt_until_ + (link_.overdue_at() - link_.lease_over_at());
  return link_.overdue_at();
}

// Our lease has expired, and other nodes may hold our ranks from now on. Returns whether this call
// detected it.
bool Agent::fence_if_late(TimePoint now, Actions& actions) {
  if (const auto until = own_lead_ends_at(); until && *until <= now) {
    lease_expired(now, lead_over_text(), actions);
    return true;
  }
  if (!has_a_seat_to_lose() || !link_.lease_is_over(now)) return false;
  if (doubt_until_ && now < *doubt_until_) return false;
  if (!doubt_until_ && may_doubt_seat(now)) {
    doubt_seat(now, now - *link_.next_deadline(), actions);
    return false;
  }
  const Duration silence = link_.since_last_ack(now);
  const bool slept = now - link_.lease_over_at() > bounds::fence_margin;
  consider_voting();
  lease_expired(now,
                slept ? slept_text(config_.lease() + link_.patience(), silence) : gone_text(now),
                actions);
  return true;
}

// This process was suspended, and so was the watchdog: it would have fired had it run at its
// deadline.
bool Agent::may_doubt_seat(TimePoint now) const {
  const auto due = link_.next_deadline();
  const bool has_slept = due && now - *due > bounds::fence_margin && now > link_.overdue_at();
  const bool runs = phase_ == Phase::running && supervisor_ && !drain_asked_;
  return has_slept && (runs || phase_ == Phase::drained) && !stopped_by_;
}

void Agent::doubt_seat(TimePoint now, Duration asleep, Actions& actions) {
  doubt_until_ = now + config_.lease();
  if (seat_deadline_) *seat_deadline_ += asleep;
  link_.overslept(now);
  actions.emplace_back(agent::TellWarning{doubt_text(link_.since_last_ack(now), config_.lease())});
  if (phase_ != Phase::running) return;
  asleep_ += asleep;
  are_paused_ = true;
  pass_on(now, supervisor_->handle(worker_time(now), supervisor::Forward{SIGSTOP}), actions);
}

void Agent::trust_seat_if_answered(TimePoint now, Actions& actions) {
  if (!doubt_until_ || link_.lease_is_over(now)) return;
  doubt_until_.reset();
  if (!has_a_seat_to_lose()) return;  // its workers have exited with 0 meanwhile
  unpause_workers(now, actions);
  actions.emplace_back(agent::TellNote{"the master confirmed the seat of this node"});
}

void Agent::unpause_workers(TimePoint now, Actions& actions) {
  if (!std::exchange(are_paused_, false) || !supervisor_) return;
  pass_on(now, supervisor_->handle(worker_time(now), supervisor::Forward{SIGCONT}), actions);
}

// Since then, other nodes may hold this node's ranks.
void Agent::on(TimePoint now, const agent::Fenced&, Actions& actions) {
  if (!has_a_seat_to_lose()) return;
  const Duration silence = link_.since_last_ack(now);
  consider_voting();
  lease_expired(now, slept_text(config_.lease() + link_.patience(), silence), actions);
}

bool Agent::asks_how_it_ended() const {
  return phase_ == Phase::succeeded && !link_.local() && !seat_deadline_;
}

// No worker is alive here, so nothing can do harm, and the job may run for hours. Only its outcome
// is missing.
void Agent::ask_how_it_ended(TimePoint now, Actions& actions) {
  if (!asks_how_it_ended() || !link_.lease_is_over(now)) return;
  if (doubt_until_ && now < *doubt_until_) return;
  seat_deadline_ = now + config_.join_timeout;
  consider_voting();
  const std::string gone = gone_text(now);
  actions.emplace_back(agent::TellNote{asks_text(gone, config_.join_timeout)});
}

// Kills the workers at once. The node then rejoins as a newcomer if the job can use one. Nothing is
// sent meanwhile: the coordinator would count a node whose heartbeats still arrive as computing,
// and would treat a worker that we could not kill as a failure.
void Agent::lease_expired(TimePoint now, const std::string& why, Actions& actions) {
  seat_lost_ = why;
  doubt_until_.reset();
  are_paused_ = false;  // KILL ends them all the same
  if (phase_ != Phase::running || !supervisor_) return rejoin(now, actions);
  saves_alone_ = may_save_alone();
  if (saves_alone_) {
    stop_workers(now, why, SIGTERM, actions);
  } else {
    pass_on(now, supervisor_->handle(worker_time(now), supervisor::Insist{why}), actions);
  }
  hang_up(now, why, actions);
}

// Nothing listens at the master's endpoint, so the master has exited and reassigns no ranks. The
// workers may save until a master replies there. Not so if a standby or another cpprund could take
// over, because the workers would delay it. A standby cannot take over without votes.
bool Agent::may_save_alone() const {
  return refused_at_ && (!standby_ || job_ends_) && !turns() && !link_.local();
}

TimePoint Agent::saves_until() const {
  return *refused_at_ + config_.lease() - link_.margin();
}

void Agent::end_saving(TimePoint now, Actions& actions) {
  saves_alone_ = false;
  const std::string why = "a new master may assign their ranks to other nodes";
  pass_on(now, supervisor_->handle(worker_time(now), supervisor::Insist{why}), actions);
}

void Agent::hang_up(TimePoint now, const std::string& reason, Actions& actions) {
  if (!link_.up() || phase_ == Phase::over) return;
  actions.emplace_back(agent::HangUp{reason});
  link_lost(now);
}

void Agent::rejoin(TimePoint now, Actions& actions) {
  const std::string reason = *std::exchange(seat_lost_, std::nullopt);
  saves_alone_ = false;
  const bool elastic = config_.elastic();
  // As the coordinator decides: a lost node uses no restart, and its seat stays reserved.
  const bool may_restart = config_.restarts.may_restart();
  // A node that hosts a job another node could lead stays until leadership is settled.
  const bool may_transfer = facts_.hosts_coordinator && standby_ && !insisted_;
  if (stopped_by_ && !may_transfer) return exit_by_signal(actions);
  if (job_ends_ && !stopped_by_) {
    return exit({.code = 1, .reason = reason + "; the job was being stopped"}, actions);
  }
  if (!elastic && !may_restart) {
    return exit({.code = 1, .reason = reason}, actions);
  }
  actions.emplace_back(agent::TellNote{rejoins_text(reason, config_.join_timeout)});
  hang_up(now, reason, actions);
  sealed_.reset();
  link_.lose_seat();
  said_in_round_.clear();
  pending_failures_ = {};
  status_due_ = now + bounds::status_interval;
  wait_for_a_seat(now, Phase::dialing);
  if (is_deposed_) return step_down(now, actions);
  if (facts_.hosts_coordinator) link_.dial_by(now);
  if (vote_ && !is_the_standby()) link_.dial_by(std::max(now, vote_->from));
}

// No reply for the lease plus the takeover window.
std::string Agent::gone_text(TimePoint now) const {
  const std::string why = link_.up() ? "no message from the master" : waiting_for_;
  const Duration silence = link_.since_last_ack(now);
  if (turns()) return nobody_leads_text(to_string(places_.all()), why, silence);
  return master_gone_text(where_the_master_is(), why, silence);
}

std::string Agent::where_the_master_is() const {
  if (turns()) return to_string(link_.up() ? places_.at() : config_.endpoint);
  if (is_at_standby_) return to_string(standby_dialled_);
  return to_string(config_.endpoint);
}

}  // namespace cpprun
