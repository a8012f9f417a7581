// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/agent/agent_text.h"
#include "launcher/agent/bounds.h"
#include "proto/signal_names.h"
#include "proto/time_use.h"
#include "rendezvous/daemon/bounds.h"
#include "rendezvous/job/bounds.h"

namespace cpprun {

namespace {

// How soon a new master is noticed while workers save without a master.
constexpr Duration dial_pause_while_saving = std::chrono::milliseconds(100);
// Upper bound of a save time in the future. The coordinator schedules one second ahead.
constexpr Duration save_lead_max = std::chrono::seconds(60);
// Heartbeats the standby sends per heartbeat interval. The coordinator's view of it is more recent
// by that factor.
constexpr int standby_beats = 3;

}  // namespace

Agent::Agent(Config config, AgentFacts facts)
    : config_(std::move(config)),
      facts_(std::move(facts)),
      link_({.heartbeat = config_.heartbeat(),
             .lease = config_.lease(),
             .local = facts_.hosts_coordinator}),
      cluster_(config_.endpoint, config_.places),
      standby_(config_.lease()),
      workers_(end_policy_of(config_), config_.beat_timeout, config_.hang_timeout),
      checks_(
          {.silence = bounds::own_world_timeout, .sleepers = !facts_.program.interpreter.empty()}) {
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
  if (const auto* const up = std::get_if<agent::LinkUp>(&event)) past_.up = *up;
  std::visit([&](const auto& what) { on(now, what, actions); }, event);
  return actions;
}

// --- messages from the coordinator ---------------------------------------------------------------

void Agent::on(TimePoint now, const agent::Heard& event, Actions& actions) {
  if (!is_worth_hearing(now, event.message, actions)) return;
  if (phase_ == Phase::succeeded && !link_.lease_is_over(now)) seat_deadline_.reset();
  if (!holds_back(now, event.message, actions)) hear(now, event.message, actions);
  speak_for_workers(event.message, actions);
  trust_seat_if_answered(now, actions);
}

// Whether a seal was sent under a lease that has expired: this process was suspended, or the
// network was slow. The seat may be lost by now, so the seal, and what follows it, waits until the
// coordinator has answered a heartbeat that is sent now.
bool Agent::holds_back(TimePoint now, const link::Message& message, Actions& actions) {
  if (held_back_.empty()) {
    const bool is_seal = std::holds_alternative<link::Sealed>(message);
    if (!is_seal || !link_.up() || link_.in_doubt() || !link_.lease_is_over(now)) return false;
    link_.overslept(now);
  }
  const bool waits = !std::holds_alternative<link::Heartbeat>(message) &&
                     !std::holds_alternative<link::Refused>(message);
  if (waits) held_back_.push_back(message);
  if (held_back_.size() > held_back_max) break_link(now, "it answers no heartbeat", actions);
  return waits;
}

void Agent::take(TimePoint now, const link::Waiting& waiting, Actions& actions) {
  waiting_for_ = waiting.reason;
  // It has a seat: what it waits for is a leader, and its lease decides for how long.
  if (phase_ == Phase::running) return;
  // The round continued without this node, which has rejoined as a newcomer.
  if (phase_ == Phase::succeeded) wait_for_a_seat(now, Phase::drained);
  // A spare waits as long as the job lasts, because it may be needed at any time.
  if (waiting.spare) {
    seat_deadline_.reset();
  } else if (!seat_deadline_) {
    seat_deadline_ = now + config_.join_timeout;
  }
  if (phase_ == Phase::joining || phase_ == Phase::drained) tell_waiting(now, actions);
}

// In a round, the coordinator rejects our claim to the seat: it belongs to another node, or this is
// another master.
void Agent::take(TimePoint now, const link::Refused& refused, Actions& actions) {
  const std::string& why = refused.reason;
  const std::string reason =
      fmt::format("the master at {} rejected this node: {}", where_the_master_is(), why);
  if (facts_.hosts_coordinator && standby_.exists()) {
    // It is the coordinator in this process, and it has lost leadership.
    is_deposed_ = true;
    if (!in_round() || phase_ == Phase::succeeded) return step_down(now, actions);
    if (!workers_.exits_when_gone() && !seat_lost_) lose_seat(now, why, actions);
    return;
  }
  if (!in_round()) return exit({.exit_code = 1, .reason = reason}, actions);
  if (phase_ == Phase::succeeded)
    return exit({.exit_code = 1, .reason = done_text(reason)}, actions);
  if (!workers_.exits_when_gone() && !seat_lost_) lose_seat(now, reason, actions);
}

void Agent::take(TimePoint now, const link::Sealed& sealed, Actions& actions) {
  // A node that had succeeded and was cut off has rejoined as a newcomer when it asked.
  const bool went_on_without = phase_ == Phase::succeeded && sealed.round > sealed_->round;
  const bool may_begin = phase_ == Phase::joining || phase_ == Phase::drained || went_on_without;
  const bool changes_rounds = workers_.wait() && in_round() && sealed.round > sealed_->round;
  if (!may_begin && !changes_rounds) return;
  if (lacks_worker_restarts(sealed, actions)) return;
  sealed_ = sealed;
  has_had_seat_ = true;
  follow(now, actions);
  said_in_round_.clear();
  left_.reset();
  drain_asked_ = false;
  job_ends_ = false;
  if (!changes_rounds) phase_.become(Phase::running);
  seat_deadline_.reset();
  status_due_.reset();
  link_.end_confirmation();
  link_.new_round();
  checks_.sealed(now, sealed.neighbour, facts_, actions);
  std::vector<WorkerSpec> specs =
      workers_.with_files_of_remaining(make_plan(config_, sealed, facts_.program, facts_.node));
  actions.emplace_back(agent::Prepare{specs, sealed.round, workers_.remaining()});
  actions.emplace_back(events::RoundSealed{sealed, facts_.node.sockets});
  workers_.begin(now, std::move(specs),
                 {.round = sealed.round,
                  .group_rank = sealed.group_rank,
                  .host = facts_.host,
                  .restarts_alone = sealed.restarts_workers},
                 checks_.unreachable_interface(), sealed.captures_timeouts, actions);
}

void Agent::take(TimePoint now, const link::Drain& drain, Actions& actions) {
  if (!sealed_ || drain.round != sealed_->round) return;
  job_ends_ = drain.ends_job;
  const bool releases = !drain.keeps_vote && standby_.release_vote();
  if (phase_ == Phase::drained) {
    drain_asked_ = true;
    if (releases) say(drained(), actions);
  }
  if (phase_ == Phase::running) {
    // The last worker may just have exited with 0, and the coordinator waits for our Drained.
    drain_asked_ = true;
    if (releases && drain.keeps_workers && workers_.wait()) say(drained(), actions);
    workers_.drain(now, drain, actions);
  }
  if (phase_ == Phase::succeeded) {
    wait_for_a_seat(now, Phase::drained);
    if (left_) say(*left_, actions);
    say(link::Drained{.round = drain.round, .asked = standby_.is_vote_released()}, actions);
  }
}

void Agent::take(TimePoint now, const link::Finish& finish, Actions& actions) {
  // A user who allowed restarts needs to know why there is none.
  if (config_.restarts.may_restart() && finish.root) {
    actions.emplace_back(events::Note{finish.reason});
  }
  const bool was_interrupted = stopped_by_ && !has_had_seat_;
  if (was_interrupted) return exit_by_signal(actions);
  if (!sealed_) actions.emplace_back(events::Note{not_needed_text(finish.reason)});
  // How the time of a successful job was spent. For a failed job the report contains this.
  // Only a job that restarts workers alone sends `restarts`.
  const bool had_failures = finish.exit_code == 0 && finish.time &&
                            (failures_of(*finish.time) != 0 || finish.restarts > 0);
  if (had_failures && sealed_ && sealed_->group_rank == GroupRank{}) {
    actions.emplace_back(events::Note{"time: " + to_text(*finish.time)});
  }
  end_job(events::end_of(finish), now, actions);
}

void Agent::end_job(events::JobEnded last, TimePoint now, Actions& actions) {
  if (phase_ != Phase::running) return exit(std::move(last), actions);
  seat_deadline_.reset();
  workers_.stop_after_capture(now, last.reason, actions);
  workers_.exit_when_gone(std::move(last));
}

// All nodes received the same time, each in terms of its own clock. A node that is late saves at
// once, because the other ranks may wait for its ranks in their save.
void Agent::take(TimePoint now, const link::Save& save, Actions&) {
  if (phase_ != Phase::running || save.round != sealed_->round) return;
  workers_.save_at(std::clamp(TimePoint{save.at}, now, now + save_lead_max), save.signal);
}

// No worker of a round is alive here. If one is, this node has a seat that the sender does not know
// of.
void Agent::take(TimePoint now, const link::Dismissed& dismissed, Actions& actions) {
  if (phase_ == Phase::running && !workers_.wait()) return;
  actions.emplace_back(events::Note{"this node leaves the job: " + dismissed.reason});
  end_job({.exit_code = stopped_by_ ? 128 + *stopped_by_ : 0, .reason = dismissed.reason}, now,
          actions);
}

void Agent::take(TimePoint now, const link::Heartbeat& heartbeat, Actions& actions) {
  const Duration silence = link_.since_last_ack(now);
  const TimePoint proof = link_.proof();
  link_.answered(now, heartbeat.sent, heartbeat.moment);
  const bool has_workers = phase_ == Phase::running || phase_ == Phase::succeeded;
  if (heartbeat.watch > Duration{} && has_workers) workers_.watch(now, heartbeat.watch, actions);
  // Several replies at once, after a pause, are one near miss.
  if (link_.proof() == proof || !has_a_seat_to_lose()) return;
  // If the silence was longer, this node was suspended. That is already reported and is not a near
  // miss.
  const bool is_late = silence > (config_.lease() + config_.heartbeat()) / 2;
  if (is_late && silence < config_.lease() + link_.takeover_window()) {
    actions.emplace_back(
        events::LeaseNearlyMissed{silence, config_.lease(), link_.takeover_window()});
  }
}

// Whether the message comes from the leader, as far as is known. A message from a follower proves
// nothing.
bool Agent::is_worth_hearing(TimePoint now, const link::Message& message, Actions& actions) {
  const auto* const other = std::get_if<link::NotLeading>(&message);
  if (other != nullptr && may_turn()) {
    cluster_.not_leading(*other);
    if (other->port != 0) link_.be_one_of_several(turns());
    break_link(now, other->reason, actions);
    return false;
  }
  link_.heard(now);
  if (!link_.in_doubt() || std::holds_alternative<link::Refused>(message)) led_here();
  return true;
}

// The workers' store requests are forwarded only once and not kept here. So they go only to the
// leader that has our seat.
void Agent::speak_for_workers(const link::Message& heard, Actions& actions) {
  const bool is_sure = link_.up() && !link_.in_doubt() && phase_ != Phase::over;
  if (!is_sure || std::holds_alternative<link::NotLeading>(heard)) return;
  if (!std::exchange(speaks_for_workers_, true)) actions.emplace_back(agent::SpeakForWorkers{});
}

// --- the link ------------------------------------------------------------------------------------

void Agent::dial(TimePoint now, Actions& actions) {
  // When asked to stop, it wants no seat. It waits until it is the leader again or times out.
  if (stopped_by_ && standby_.has_stepped_down()) return;
  if (turns()) return cluster_.dial(now, has_a_seat_to_lose(), link_, actions);
  standby_.dial(now, config_.endpoint, link_, actions);
}

void Agent::on(TimePoint now, const agent::LinkUp& event, Actions& actions) {
  if (event.local_store_port) facts_.node.local_store_port = *event.local_store_port;
  if (saves_alone_) end_saving(now, actions);
  refused_at_.reset();
  if (phase_ == Phase::dialing) {
    const auto& address = config_.local_addr ? *config_.local_addr : event.local_address;
    auto sockets = choose_interfaces(facts_.interfaces, address, config_.nodes_max == 1,
                                     facts_.node.environment);
    if (!sockets) {
      exit({.exit_code = usage_exit_code, .reason = sockets.error().reason}, actions);
      return;
    }
    facts_.node.sockets = std::move(*sockets);
    phase_.become(Phase::joining);
    checks_.reached(now, config_, facts_, address, event.master_addresses, actions);
  }
  if (seat_lost_) {
    // Nothing may be sent before the last worker is gone.
    actions.emplace_back(agent::HangUp{*seat_lost_});
    link_lost(now);
    return;
  }
  link_.came_up(now, cluster_.epoch() != 0 && in_round());
  workers_.begin_link();
  speaks_for_workers_ = false;
  const JoinState state{
      .after = sealed_ ? sealed_->round : RoundNumber{},
      .idle = phase_ == Phase::drained || phase_ == Phase::succeeded || workers_.wait(),
      .done = phase_ == Phase::succeeded,
      .sent = link_.heartbeat(now).sent,
      .vote = standby_.vote_on_this_link(actions),
      .epoch = cluster_.epoch(),
      .fresh = !has_had_seat_};
  actions.emplace_back(agent::Say{join_message(config_, facts_, state)});
  // Messages that the coordinator may have missed while the link was down. It ignores known ones.
  for (const link::Message& message : said_in_round_) actions.emplace_back(agent::Say{message});
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
  standby_.link_down(now, link_);
  waiting_for_ = event.reason;
  if (phase_ == Phase::dialing && facts_.hosts_coordinator) {
    waiting_for_ = unresolved_text(config_, event.reason, facts_.interfaces);
  } else if (turns()) {
    waiting_for_ = to_string(cluster_.places().at()) + ": " + event.reason;
  } else if (phase_ == Phase::dialing && event.refused) {
    waiting_for_ += hint_for_dialler(config_, event.tried, facts_.interfaces);
  }
  if (phase_ == Phase::joining) {
    phase_.become(Phase::dialing);
    if (!standby_.considers()) consider_voting();
    // A spare had no deadline while the master was there.
    if (!seat_deadline_) wait_for_a_seat(now, Phase::dialing);
  }
  if (!status_due_ && phase_ == Phase::dialing) status_due_ = now + bounds::first_status_after;
}

// The link is down, from now on or since earlier.
void Agent::link_lost(TimePoint now, bool fell_silent) {
  const auto pause =
      turns() ? cluster_.lost(fell_silent, has_a_seat_to_lose()) : CoordinatorLink::Pause::grows;
  link_.went_down(now, pause, fell_silent);
  held_back_.clear();
}

void Agent::hang_up(TimePoint now, const std::string& reason, Actions& actions) {
  if (!link_.up() || phase_ == Phase::over) return;
  actions.emplace_back(agent::HangUp{reason});
  link_lost(now);
}

// The peer is of no use.
void Agent::break_link(TimePoint now, const std::string& reason, Actions& actions) {
  actions.emplace_back(agent::HangUp{reason});
  on(now, agent::LinkDown{reason}, actions);
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

link::Heartbeat Agent::heartbeat(TimePoint now) {
  auto beat = link_.heartbeat(now);
  beat.notice = std::exchange(notice_, {});
  if (phase_ == Phase::running) workers_.add_to(beat, now);
  return beat;
}

void Agent::say(link::Message message, Actions& actions) {
  if (in_round()) said_in_round_.push_back(message);
  if (link_.up()) actions.emplace_back(agent::Say{std::move(message)});
}

// --- the leader of a cluster ---------------------------------------------------------------------

void Agent::led_here() {
  if (!turns()) return;
  config_.endpoint = cluster_.leads();
  facts_.node.master_host = config_.endpoint.host;
}

void Agent::take(TimePoint now, const link::Members& members, Actions& actions) {
  if (!may_turn() || !link_.up()) return;
  if (cluster_.is_stale(members.epoch)) {
    return break_link(now, cluster_.reject(members.epoch, actions), actions);
  }
  if (const auto from = cluster_.follow(members.epoch)) {
    const bool has_seat = in_round() && phase_ != Phase::succeeded;
    const bool runs_on = phase_ == Phase::running && !drain_asked_ && !stopped_by_;
    actions.emplace_back(
        events::LeaderChanged{.from = *from,
                              .to = cluster_.places().at(),
                              .epoch = members.epoch,
                              .silence = has_seat ? link_.unanswered() : Duration{},
                              .keeps_workers = runs_on && members.keeps_round});
  }
  cluster_.learn(members.places, actions);
  link_.be_one_of_several(turns());
  // Without an epoch, the agent could not distinguish a former leader from the current one.
  link_.leads(members.epoch != 0 ? members.takeover_window : Duration{});
  led_here();
  if (phase_ == Phase::succeeded && !link_.lease_is_over(now)) seat_deadline_.reset();
}

// --- the standby of a node that hosts the job ----------------------------------------------------

void Agent::take(TimePoint, const link::Record& record, Actions& actions) {
  auto whole = standby_.record(record);
  const bool can_stand_by = phase_ == Phase::running || phase_ == Phase::drained;
  if (!whole || !sealed_ || whole->round != sealed_->round || !can_stand_by) return;
  actions.emplace_back(*std::move(whole));
}

void Agent::on(TimePoint, const agent::StandsBy& event, Actions& actions) {
  if (!sealed_ || event.round != sealed_->round || !in_round()) return;
  link_.beat_every(config_.heartbeat() / standby_beats);
  say(link::Stands{event.round, event.port}, actions);
  standby_.listens(event);
}

void Agent::take(TimePoint now, const link::Standby& standby, Actions& actions) {
  actions.emplace_back(events::Note{fmt::format("the node at {} is the standby of the master",
                                                to_string(Endpoint{standby.address, standby.port})),
                                    LogLevel::debug});
  if (phase_ == Phase::joining && !sealed_) {
    // A spare has no vote, but must know which node to ask. The sender of this message is the
    // leader.
    follow(now, actions);
    standby_.named(standby, /*may_vote=*/false);
    return;
  }
  if (!sealed_ || standby.round != sealed_->round || !in_round()) return;
  standby_.named(standby, phase_ != Phase::succeeded && !drain_asked_ && !link_.local());
}

// The coordinator on this link has sealed a round, or names its standby. It is the one to follow
// from now on.
void Agent::follow(TimePoint now, Actions& actions) {
  if (const auto* const at = standby_.dialled()) turn_to(now, *at, actions);
  standby_.follow();
  link_.beat_every({});
}

// While its workers are still stopping, or the coordinator may be back, it does not stand.
std::optional<TimePoint> Agent::stands_at() const {
  return phase_ == Phase::running || link_.up() ? std::nullopt : standby_.stands_at();
}

// This node is the standby. It votes for itself and keeps dialling the coordinator until it is the
// leader.
void Agent::stand_if_due(TimePoint now, Actions& actions) {
  const auto at = stands_at();
  if (at && *at <= now) actions.emplace_back(agent::Stand{own_join(now, standby_.stand())});
}

// There is a majority, or leadership was lost and no other node could get one. A link still up goes
// to a coordinator that has lost leadership.
void Agent::on(TimePoint now, const agent::Leads& event, Actions& actions) {
  if (event.again) is_deposed_ = false;
  // If its workers are still stopping, it asks here for a seat afterwards.
  if (event.again ? facts_.hosts_coordinator : !standby_.exists()) return;
  const bool was_transferred = phase_ == Phase::drained;
  hang_up(now, event.again ? "this node is the leader again" : "this node is the leader now",
          actions);
  if (phase_ == Phase::joining) phase_.become(Phase::dialing);
  facts_.hosts_coordinator = true;
  link_.become_local(true);
  if (event.again) {
    standby_.lead_again();
  } else {
    turn_to(now, standby_.place(), actions);
    former_masters_.search(now);
    standby_.lead();
  }
  if (phase_ != Phase::succeeded) wait_for_a_seat(now, Phase::dialing);
  const char* const told =
      event.again ? "leadership resumed: this node is the leader again"
      : was_transferred
          ? "the master is exiting and has transferred leadership: this node is now the leader"
          : "lost the master; this node is the leader now";
  actions.emplace_back(events::Note{told});
  actions.emplace_back(agent::Dial{config_.endpoint});
}

// `master` is the master from now on.
void Agent::turn_to(TimePoint now, const Endpoint& master, Actions& actions) {
  if (master == config_.endpoint) return;
  if (has_had_seat_) {
    actions.emplace_back(events::LeaderChanged{
        .from = config_.endpoint, .to = master, .silence = standby_.silence(now)});
  }
  former_masters_.moved(config_.endpoint, master);
  config_.endpoint = master;
  facts_.node.master_host = master.host;
}

void Agent::look_for_old_masters(TimePoint now, Actions& actions) {
  if (!facts_.hosts_coordinator) return;
  if (auto ask = former_masters_.ask(now, config_, facts_)) actions.emplace_back(*std::move(ask));
}

// The coordinator that was asked for a seat, or the one in this process, lost leadership. If the
// round has drained, leadership was transferred: to this node, if the address is its own.
void Agent::take(TimePoint now, const link::Led& led, Actions& actions) {
  if (in_round() && phase_ != Phase::drained) return;
  if (stopped_by_) return exit_by_signal(actions);
  const Endpoint leader{led.address, led.port};
  if (phase_ == Phase::drained) {
    const bool is_here = standby_.transferred(leader, !facts_.hosts_coordinator);
    leave_round();
    if (is_here) {
      actions.emplace_back(agent::TakeOver{own_join(now, {})});
      return;
    }
    wait_for_a_seat(now, Phase::dialing);
  }
  turn_to(now, leader, actions);
  waiting_for_ = "the leader of this job is at " + to_string(config_.endpoint);
  if (facts_.hosts_coordinator) step_down(now, actions);
}

// The coordinator in this process lost leadership.
void Agent::step_down(TimePoint now, Actions& actions) {
  is_deposed_ = false;
  facts_.hosts_coordinator = false;
  leads_until_.reset();
  link_.become_local(false);
  if (phase_ == Phase::joining) phase_.become(Phase::dialing);
  actions.emplace_back(agent::StepDown{});
  standby_.step_down(now, link_);
}

// On the node that hosts the coordinator: when another node may take over and reassign our ranks.
std::optional<TimePoint> Agent::own_lead_ends_at() const {
  const bool has_workers = phase_ == Phase::running && !workers_.exits_when_gone() && !seat_lost_;
  return link_.local() && has_workers ? leads_until_ : std::nullopt;
}

// --- the seat ------------------------------------------------------------------------------------

bool Agent::has_a_seat_to_lose() const {
  return in_round() && phase_ != Phase::succeeded && !workers_.exits_when_gone() && !seat_lost_ &&
         !link_.local();
}

std::optional<TimePoint> Agent::overdue_at() const {
  if (const auto until = own_lead_ends_at()) {
    return *until + link_.margin() / 2;
  }
  if (saves_alone_) return saves_until() + link_.margin() / 2;
  if (!has_a_seat_to_lose()) return std::nullopt;
  return link_.overdue_at();
}

// Our lease has expired, and other nodes may hold our ranks from now on. Returns whether this call
// detected it.
bool Agent::fence_if_late(TimePoint now, Actions& actions) {
  if (const auto until = own_lead_ends_at(); until && *until <= now) {
    lose_seat(now,
              "too few nodes have responded to this master within its lease, so its standby may be "
              "the leader",
              actions);
    return true;
  }
  if (!has_a_seat_to_lose() || !link_.lease_is_over(now) || now < link_.seat_ends_at())
    return false;
  if (!link_.awaits_confirmation() && may_doubt_seat(now)) {
    doubt_seat(now, now - *link_.next_deadline(), actions);
    return false;
  }
  lease_expired(now, now - link_.lease_over_at() > bounds::fence_margin, actions);
  return true;
}

// This process was suspended: its heartbeats are overdue too. So was the watchdog, which fires if
// it runs at its deadline.
bool Agent::may_doubt_seat(TimePoint now) const {
  const auto due = link_.next_deadline();
  const bool has_slept = due && now - *due > bounds::fence_margin;
  const bool runs = phase_ == Phase::running && !drain_asked_;
  return has_slept && (runs || phase_ == Phase::drained) && !stopped_by_;
}

void Agent::doubt_seat(TimePoint now, Duration asleep, Actions& actions) {
  if (seat_deadline_) *seat_deadline_ += asleep;
  link_.overslept(now);
  actions.emplace_back(
      events::Note{doubt_text(link_.since_last_ack(now), config_.lease()), LogLevel::warning});
  if (phase_ == Phase::running) workers_.pause(now, asleep, actions);
}

void Agent::trust_seat_if_answered(TimePoint now, Actions& actions) {
  if (!link_.awaits_confirmation() || link_.lease_is_over(now)) return;
  link_.end_confirmation();
  const std::vector<link::Message> held_back = std::exchange(held_back_, {});
  for (const link::Message& each : held_back) {
    if (link_.up() && phase_ != Phase::over) hear(now, each, actions);
  }
  if (!held_back.empty() || !has_a_seat_to_lose()) return;  // all workers may have exited with 0
  workers_.resume(now, actions);
  actions.emplace_back(events::Note{"the master confirmed this node's place in the job"});
}

// Since then, other nodes may hold this node's ranks.
void Agent::on(TimePoint now, const agent::Fenced&, Actions& actions) {
  if (has_a_seat_to_lose()) lease_expired(now, /*slept=*/true, actions);
}

void Agent::lease_expired(TimePoint now, bool slept, Actions& actions) {
  consider_voting();
  const Duration silence = link_.since_last_ack(now);
  lose_seat(now,
            slept ? slept_text(config_.lease() + link_.takeover_window(), silence) : gone_text(now),
            actions);
}

void Agent::consider_voting() {
  standby_.consider_voting(link_.heard_at(),
                           sealed_ ? std::optional(sealed_->round) : std::nullopt);
}

// No worker is alive here, so nothing can do harm, and the job may run for hours. Only its outcome
// is missing.
void Agent::ask_how_it_ended(TimePoint now, Actions& actions) {
  if (!asks_how_it_ended() || !link_.lease_is_over(now) || now < link_.seat_ends_at()) return;
  seat_deadline_ = now + config_.join_timeout;
  consider_voting();
  const std::string gone = gone_text(now);
  actions.emplace_back(events::Note{asks_text(gone, config_.join_timeout)});
}

// Kills the workers at once. The node then rejoins as a newcomer if the job can use one. Nothing is
// sent meanwhile: the coordinator would count a node whose heartbeats still arrive as computing,
// and would treat a worker that we could not kill as a failure.
void Agent::lose_seat(TimePoint now, const std::string& why, Actions& actions) {
  seat_lost_ = why;
  link_.end_confirmation();
  workers_.forget_pause();
  if (phase_ != Phase::running) return rejoin(now, actions);
  saves_alone_ = may_save_alone();
  if (saves_alone_) {
    workers_.stop(now, why, SIGTERM, actions);
  } else {
    workers_.kill(now, why, actions);
  }
  hang_up(now, why, actions);
}

// Nothing listens at the master's endpoint, so the master has exited and reassigns no ranks. The
// workers may save until a master replies there. Not so if a standby or another cpprund could take
// over, because the workers would delay it. A standby cannot take over without votes.
bool Agent::may_save_alone() const {
  return refused_at_ && (!standby_.exists() || job_ends_) && !turns() && !link_.local();
}

void Agent::end_saving(TimePoint now, Actions& actions) {
  saves_alone_ = false;
  workers_.kill(now, "a new master may assign their ranks to other nodes", actions);
}

void Agent::leave_round() {
  sealed_.reset();
  link_.lose_seat();
  said_in_round_.clear();
}

void Agent::rejoin(TimePoint now, Actions& actions) {
  const std::string reason = *std::exchange(seat_lost_, std::nullopt);
  saves_alone_ = false;
  const bool elastic = config_.elastic();
  // As the coordinator decides: a lost node uses no restart, and its seat stays reserved.
  const bool may_restart = config_.restarts.may_restart();
  // A node that hosts a job another node could lead stays until leadership is settled.
  const bool may_transfer = facts_.hosts_coordinator && standby_.exists() && !insisted_;
  if (stopped_by_ && !may_transfer) return exit_by_signal(actions);
  if (job_ends_ && !stopped_by_) {
    return exit({.exit_code = 1, .reason = reason + "; the job was being stopped"}, actions);
  }
  if (!elastic && !may_restart) {
    return exit({.exit_code = 1, .reason = reason}, actions);
  }
  actions.emplace_back(events::Note{
      fmt::format("{}; rejoining (timeout {:.0f} s)", reason, in_seconds(config_.join_timeout))});
  hang_up(now, reason, actions);
  leave_round();
  status_due_ = now + bounds::status_interval;
  wait_for_a_seat(now, Phase::dialing);
  if (is_deposed_) return step_down(now, actions);
  if (facts_.hosts_coordinator) link_.dial_by(now);
  standby_.ask_standby(now, link_);
}

void Agent::wait_for_a_seat(TimePoint now, Phase phase) {
  phase_.become(phase);
  has_read_first_ = false;
  // Only the coordinator knows the pause before a restart. This is its upper bound.
  const Duration pause = config_.restarts.pause_max();
  seat_deadline_ = now + config_.join_timeout + (phase == Phase::drained ? pause : Duration{});
  // When asked to stop, stay only long enough to find out who the leader is.
  if (stopped_by_ && phase == Phase::dialing) {
    seat_deadline_ = now + 2 * config_.lease() + bounds::hand_over_timeout;
  }
}

// If the deadline passed while this node was suspended, read pending messages first; once.
bool Agent::reads_first(TimePoint now) {
  if (has_read_first_ || now - *seat_deadline_ < bounds::coordinator_nap) return false;
  has_read_first_ = true;
  seat_deadline_ = now + bounds::coordinator_nap;
  return true;
}

void Agent::give_up_if_due(TimePoint now, Actions& actions) {
  if (!seat_deadline_ || now < *seat_deadline_ || phase_ == Phase::over || reads_first(now)) return;
  const std::string reason = fmt::format(
      "gave up after {:.0f} s: {}{}{}", in_seconds(config_.join_timeout), whose_word_is_missing(),
      waiting_for_, checks_.doubt() ? "; " + checks_.doubt()->sentence : "");
  if (stopped_by_) {
    exit_by_signal(actions);
  } else if (phase_ == Phase::succeeded) {  // no other node waits for us
    exit({.exit_code = 1, .reason = done_text(reason)}, actions);
  } else {
    say(link::Leave{.signal = 0, .reason = reason}, actions);
    end_job({.exit_code = 1, .reason = reason}, now, actions);
  }
}

// --- the workers ---------------------------------------------------------------------------------

void Agent::on(TimePoint now, const agent::FromWorker& event, Actions& actions) {
  workers_.handle(now, event.event, actions);
  conclude_if_gone(now, actions);
  const bool is_known = std::holds_alternative<supervisor::HeartbeatsSeen>(event.event);
  if (!is_known) workers_.sample_if_watched(now, actions);
}

void Agent::on(TimePoint now, const agent::WorkersSeen& event, Actions& actions) {
  if (phase_ != Phase::running && phase_ != Phase::succeeded) return workers_.sample_discarded();
  auto status = workers_.sampled(now, event.sights);
  // Not repeated when a link resumes, because it describes this moment only.
  if (link_.up()) actions.emplace_back(agent::Say{std::move(status)});
}

void Agent::on(TimePoint now, const agent::ProgressSeen& event, Actions& actions) {
  if (phase_ != Phase::running) return;
  workers_.progress_seen(now, event.signs, actions);
  tell_quiet(now, actions);
}

void Agent::tell_quiet(TimePoint now, Actions& actions) {
  if (workers_.has_news(now, link_.local()) && link_.up())
    actions.emplace_back(agent::Say{heartbeat(now)});
}

void Agent::on(TimePoint now, const agent::WorkersObserved& event, Actions& actions) {
  if (event.number == HangReports::for_console) return show_stacks(now, event, actions);
  if (phase_ != Phase::running) return;
  auto reply = workers_.observed(now, event);
  tell_quiet(now, actions);
  for (link::Captured& part : reply) {
    if (link_.up()) actions.emplace_back(agent::Say{std::move(part)});
  }
  workers_.captured(now, event.number, actions);
  conclude_if_gone(now, actions);
}

void Agent::show_stacks(TimePoint now, const agent::WorkersObserved& event, Actions& actions) {
  if (!awaits_stacks_ || stopped_by_) return;
  const agent::Signalled signal = *awaits_stacks_;
  if (phase_ == Phase::running) actions.emplace_back(events::Note{HangReports::text_of(event)});
  on(now, signal, actions);
}

void Agent::on(TimePoint now, const agent::Examined& event, Actions& actions) {
  if (!sealed_) return;
  Evidence evidence = event.evidence;
  checks_.explain(facts_, evidence);
  if (auto told = workers_.examined(std::move(evidence), actions)) say(*std::move(told), actions);
  conclude_if_gone(now, actions);
}

void Agent::on(TimePoint, const agent::Answered& event, Actions& actions) {
  if (in_round() || looks_for_masters()) return;
  if (auto why = checks_.answered(config_, facts_, event.hosts, actions)) {
    exit({.exit_code = 1, .reason = *std::move(why)}, actions);
  }
}

void Agent::conclude_if_gone(TimePoint now, Actions& actions) {
  auto end = workers_.take_end();
  if (!end) return;
  if (end->exit) return exit(*std::move(end->exit), actions);
  if (seat_lost_) return rejoin(now, actions);
  if (end->waits && !stopped_by_) {
    seat_deadline_ = now + config_.join_timeout + config_.restarts.pause_max();
    say(drained(), actions);
    return;
  }
  left_ = std::move(end->left_early);
  if (end->succeeded && !drain_asked_ && !stopped_by_) {
    phase_.become(Phase::succeeded);
    standby_.lose_vote();
    say(link::Succeeded{sealed_->round}, actions);
    return;
  }
  wait_for_a_seat(now, Phase::drained);
  if (left_) say(*left_, actions);
  say(drained(), actions);
  // A node that was asked to stop need not wait for the others to exit, unless it hosts the
  // coordinator.
  if (stopped_by_ && (!facts_.hosts_coordinator || insisted_)) exit_by_signal(actions);
}

// --- requests to this node -----------------------------------------------------------------------

void Agent::on(TimePoint now, const agent::Signalled& event, Actions& actions) {
  if (!asks_to_end(event.signal)) return forward(now, event.signal, actions);
  if (stopped_by_) {
    // Schedulers repeat themselves: at the end of a job's time, Slurm signals the step, and srun,
    // which is signalled too, does the same. Only a person means by it that the workers must not
    // finish.
    if (!event.by.empty()) return;
    insisted_ = true;
    if (phase_ != Phase::running) return exit_by_signal(actions);
    workers_.kill(now, fmt::format("{} arrived again", signal_name(event.signal)), actions);
    return;
  }
  // Like other runtimes, show what was being done, and then end. Another signal does not wait.
  if (event.signal == SIGQUIT && phase_ == Phase::running && !awaits_stacks_) {
    awaits_stacks_ = event;
    actions.emplace_back(
        agent::ObserveWorkers{.number = HangReports::for_console, .round = sealed_->round});
    return;
  }
  awaits_stacks_.reset();
  stopped_by_ = event.signal;
  workers_.stop_requested(now, event.signal);
  stop_reason_ = fmt::format("asked to stop by {}{}", signal_name(event.signal),
                             event.by.empty() ? "" : ": " + event.by);
  say(
      link::Leave{
          .signal = event.signal, .reason = stop_reason_, .asked = link_.heartbeat(now).sent},
      actions);
  if (phase_ == Phase::running) {
    workers_.stop(now, stop_reason_, event.signal, actions);
  } else if (!facts_.hosts_coordinator) {
    // This breaks the round, and this node will not be there to receive the Drain.
    if (phase_ == Phase::succeeded) say(link::Drained{sealed_->round}, actions);
    exit_by_signal(actions);
  }
  // The node that hosts the coordinator leaves when the coordinator reports that the job is over.
}

// A signal that does not mean stop. A signal in config_.notices goes only to workers that handle
// it.
void Agent::forward(TimePoint now, int signal, Actions& actions) {
  if (phase_ != Phase::running) return;
  if (std::ranges::find(config_.notices, signal) != config_.notices.end()) {
    workers_.deliver(now, signal, actions);
  } else {
    workers_.forward(now, signal, actions);
  }
}

// All ranks save, not only those of this node, so the coordinator has to know.
void Agent::on(TimePoint now, const agent::Noticed& event, Actions& actions) {
  const bool can_save = phase_ == Phase::running && !stopped_by_;
  actions.emplace_back(events::Note{
      fmt::format("note: preemption notice ({}){}", event.what,
                  can_save ? "; asking all ranks to save" : ", with no worker that could save")});
  if (!can_save) return;
  notice_ = event.what;
  if (link_.up()) actions.emplace_back(agent::Say{heartbeat(now)});
}

void Agent::exit_by_signal(Actions& actions) {
  const int signal = stopped_by_.value_or(SIGTERM);
  const auto reason =
      stop_reason_.empty() ? fmt::format("asked to stop by {}", signal_name(signal)) : stop_reason_;
  exit({.exit_code = 128 + signal,
        .reason = has_had_seat_ ? reason : interrupted_text(signal, phase_ == Phase::dialing)},
       actions);
}

void Agent::exit(events::JobEnded last, Actions& actions) {
  if (phase_ == Phase::over) return;
  phase_.become(Phase::over);
  if (sealed_) last.group_rank = sealed_->group_rank;
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
  workers_.advance(now, actions);
  conclude_if_gone(now, actions);
  if (saves_alone_ && now >= saves_until()) end_saving(now, actions);
  checks_.ask_for_rivals(now, config_, facts_, actions);
  look_for_old_masters(now, actions);
  const bool are_running = phase_ == Phase::running && !drain_asked_ && !stopped_by_;
  checks_.probe_world(now, are_running, actions);
  tell_status_if_due(now, actions);
  give_up_if_due(now, actions);
  return actions;
}

std::optional<TimePoint> Agent::next_deadline() const {
  if (phase_ == Phase::over) return std::nullopt;
  std::optional<TimePoint> soonest;
  const auto consider = [&soonest](std::optional<TimePoint> deadline) {
    if (deadline && (!soonest || *deadline < *soonest)) soonest = deadline;
  };
  consider(link_.next_deadline());
  consider(checks_.next_deadline());
  consider(status_due_);
  consider(seat_deadline_);
  consider(workers_.next_deadline());
  if (saves_alone_) consider(saves_until());
  consider(stands_at());
  if (looks_for_masters()) consider(former_masters_.next_deadline());
  consider(own_lead_ends_at());
  if (link_.up() && !link_.local()) consider(link_.silent_at());
  if (has_a_seat_to_lose() || asks_how_it_ended()) consider(link_.seat_ends_at());
  return soonest;
}

// Planted bugs in tests/sim violate these invariants.
std::optional<std::string> Agent::check() const {
  if (phase_ == Phase::over) return std::nullopt;
  if (in_round() && !sealed_) return "it is in a round that was never sealed";
  if (phase_ == Phase::joining && !link_.up()) return "it waits for a seat and has no link";
  if (seat_lost_ && phase_ != Phase::running) return "it has lost its seat and runs nothing";
  if (seat_lost_ && link_.up()) return "it has lost its seat and keeps its link";
  if (speaks_for_workers_ && link_.in_doubt()) {
    return "it confirms its workers to a master whose lease may have expired";
  }
  if (phase_ == Phase::dialing && !seat_deadline_) return "it dials without a deadline";
  return phase_ == Phase::running ? workers_.check() : std::nullopt;
}

// --- status --------------------------------------------------------------------------------------

void Agent::tell_status_if_due(TimePoint now, Actions& actions) {
  if (!status_due_ || now < *status_due_) return;
  status_due_.reset();
  if (phase_ == Phase::joining) checks_.tell_doubt(actions);
  if (phase_ == Phase::dialing) {
    status_due_ = now + bounds::status_interval;
    tell_waiting(now, actions);
  }
}

void Agent::tell_waiting(TimePoint now, Actions& actions) {
  const std::string left = seat_deadline_ ? "; " + seconds_left(now, *seat_deadline_) : "";
  actions.emplace_back(events::Waiting{whose_word_is_missing() + waiting_for_ + left});
}

std::string Agent::whose_word_is_missing() const {
  const bool asks = phase_ == Phase::dialing || phase_ == Phase::succeeded;
  if (!asks || facts_.hosts_coordinator) return {};
  if (turns()) return fmt::format("no leader among {}: ", to_string(cluster_.places().all()));
  return fmt::format("no response from the master at {}: ", where_the_master_is());
}

// No reply for the lease plus the takeover window.
std::string Agent::gone_text(TimePoint now) const {
  const std::string why = link_.up() ? "no message from the master" : waiting_for_;
  const Duration silence = link_.since_last_ack(now);
  if (turns()) return no_leader_text(to_string(cluster_.places().all()), why, silence);
  return master_gone_text(where_the_master_is(), why, silence);
}

std::string Agent::where_the_master_is() const {
  if (turns()) return to_string(link_.up() ? cluster_.places().at() : config_.endpoint);
  if (const auto* const at = standby_.dialled()) return to_string(*at);
  return to_string(config_.endpoint);
}

}  // namespace cpprun
