// SPDX-License-Identifier: BSD-3-Clause
// The agent and the successor of a lost coordinator: how this node acts as a standby, which node it
// votes for, and which node it asks for a seat then. A cast vote is a promise: until NotLeading is
// received, this node follows no other coordinator (rendezvous/job/leases.h).

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/agent/agent.h"
#include "proto/bounds.h"

namespace cpprun {

namespace {

using namespace std::chrono_literals;

// The nodes' last contacts with the coordinator differ by up to a heartbeat, so the standby may not
// campaign yet, and a host without power does not reply for seconds. So the agent alternates
// between standby and master, with these timeouts.
constexpr Duration standby_turn = 1s;
constexpr Duration master_turn = 500ms;
// The pause before asking a standby again that has our vote.
constexpr Duration standby_pause = 250ms;
// Heartbeats the standby sends per heartbeat interval. The coordinator's view of it is more recent
// by that factor.
constexpr int standby_beats = 3;

}  // namespace

// Parts arrive in order. A part out of order belongs to a broken link.
void Agent::record(const link::Record& record, Actions& actions) {
  const bool begins = record.part == 0;
  const bool follows = !begins && record.round == record_.round && record.parts == record_.parts &&
                       record.part == record_.part + 1;
  if (!begins && !follows) {
    record_ = {};
    return;
  }
  std::string bytes = begins ? std::string() : std::move(record_.bytes);
  bytes += record.bytes;
  record_ = {record.round, record.part, record.parts, std::move(bytes)};
  if (record.part + 1 < record.parts) return;
  const bool can_stand_by = phase_ == Phase::running || phase_ == Phase::drained;
  if (!sealed_ || record.round != sealed_->round || !can_stand_by) return;
  actions.emplace_back(agent::StandBy{record.round, std::move(record_.bytes)});
  record_ = {};
}

void Agent::on(TimePoint, const agent::StandsBy& event, Actions& actions) {
  if (!sealed_ || event.round != sealed_->round || !in_round()) return;
  link_.beat_every(config_.heartbeat() / standby_beats);
  say(link::Stands{event.round, event.port}, actions);
  own_standby_ = event;
}

void Agent::standby(TimePoint now, const link::Standby& standby, Actions& actions) {
  actions.emplace_back(
      agent::TellDetail{fmt::format("the node at {} is the standby of the master",
                                    to_string(Endpoint{standby.address, standby.port}))});
  if (phase_ == Phase::joining && !sealed_) {
    // A spare has no vote, but must know which node to ask. The sender of this message is the
    // leader.
    follow_standby(now, actions);
    standby_ = standby;
    return;
  }
  if (!sealed_ || standby.round != sealed_->round || !in_round()) return;
  if (!standby_) may_vote_ = phase_ != Phase::succeeded && !drain_asked_ && !link_.local();
  standby_ = standby;
  // The first Standby received with our port after this node opened its own refers to this node. In
  // a draining round another node may replace it, with the same port.
  const bool is_own = own_standby_ && !own_place_ && own_standby_->round == standby.round &&
                      own_standby_->port == standby.port;
  if (is_own) own_place_ = standby;
}

bool Agent::is_the_standby() const {
  return standby_ && own_place_ && *standby_ == *own_place_;
}

// The lease expired without an orderly end. A node that knows the round has ended, or has reported
// its own success, asks the standby without a vote.
void Agent::consider_voting() {
  if (!standby_) return;
  const Duration lease = config_.lease();
  vote_ = Vote{.round = sealed_ && may_vote_ ? sealed_->round : RoundNumber{},
               .from = link_.heard_at() + bounds::vote_patience(lease)};
}

// A lost coordinator may come back, as long as our vote has not been cast.
void Agent::dial(TimePoint now, Actions& actions) {
  // When asked to stop, it wants no seat. It waits until it is the leader again or times out.
  if (stopped_by_ && turned_away_) return;
  if (turns()) return dial_next(now, actions);
  const bool asks_both = vote_ && !is_the_standby();
  const bool may_vote = asks_both && vote_->from <= now;
  is_at_standby_ = (turned_away_ && standby_) || (may_vote && (vote_->is_given || !is_at_standby_));
  if (is_at_standby_) {
    standby_dialled_ = {standby_->address, standby_->port};
    actions.emplace_back(agent::Dial{standby_dialled_});
  } else {
    actions.emplace_back(agent::Dial{config_.endpoint});
  }
  // An attempt that gets no reply must not delay the next one.
  if (asks_both && !may_vote) link_.dial_by(vote_->from);
  if (may_vote) link_.dial_by(now + (is_at_standby_ ? standby_turn : master_turn));
}

// The vote that a Join carries on the link that has just come up. A coordinator that is back gets
// no vote, and there can be no vote after that.
RoundNumber Agent::vote_on_this_link(Actions& actions) {
  if (is_at_standby_) {
    if (!vote_) return {};
    vote_->is_given = vote_->round != RoundNumber{};
    return vote_->round;
  }
  if (std::exchange(stands_, false)) actions.emplace_back(agent::Stand{});
  if (vote_) standby_.reset();
  vote_.reset();
  return {};
}

void Agent::not_leading(const link::NotLeading& answer) {
  waiting_for_ = answer.reason;
  if (vote_) vote_->is_given = false;
}

// Schedules the next attempt after one at the standby.
void Agent::ask_standby_again(TimePoint now) {
  if (turned_away_ || (vote_ && vote_->is_given)) link_.dial_at(now + standby_pause);
  if (vote_ && vote_->from <= now) link_.dial_by(now + master_turn);
}

link::Join Agent::own_join(TimePoint now, RoundNumber vote) const {
  return join_message(config_, facts_, {.sent = link_.heartbeat(now).sent, .vote = vote});
}

// On the node that hosts the coordinator: when another node may take over and reassign our ranks.
std::optional<TimePoint> Agent::own_lead_ends_at() const {
  const bool has_workers = phase_ == Phase::running && !exit_when_settled_ && !seat_lost_;
  return link_.local() && has_workers ? leads_until_ : std::nullopt;
}

std::optional<TimePoint> Agent::stands_at() const {
  if (!vote_ || vote_->round == RoundNumber{} || stands_ || !is_the_standby()) return std::nullopt;
  // Its workers are still stopping, or the coordinator may be back.
  if (phase_ == Phase::running || link_.up()) return std::nullopt;
  return vote_->from;
}

// This node is the standby. It votes for itself and keeps dialling the coordinator until it is the
// leader.
void Agent::stand_if_due(TimePoint now, Actions& actions) {
  const auto at = stands_at();
  if (!at || now < *at) return;
  stands_ = true;
  actions.emplace_back(agent::Stand{own_join(now, vote_->round)});
}

// There is a majority. A link still up goes to a coordinator that has lost leadership.
void Agent::on(TimePoint now, const agent::Leads& event, Actions& actions) {
  if (event.again) return lead_again(now, actions);
  if (!standby_) return;
  const bool was_transferred = phase_ == Phase::drained;
  hang_up(now, "this node is the leader now", actions);
  if (phase_ == Phase::joining) phase_.become(Phase::dialing);
  facts_.hosts_coordinator = true;
  link_.become_local(true);
  master_look_due_ = now;
  turn_to(now, {standby_->address, standby_->port}, actions);
  // Try the previous master first: after a transfer its nodes wait for that.
  master_looked_for_ = old_masters_.empty() ? 0 : old_masters_.size() - 1;
  vote_.reset();
  stands_ = false;
  is_at_standby_ = false;
  if (phase_ != Phase::succeeded) wait_for_a_seat(now, Phase::dialing);
  actions.emplace_back(agent::TellNote{
      was_transferred ? "the master exits and transferred leadership: this node is the leader"
                      : "lost the master; this node is the leader now"});
  actions.emplace_back(agent::Dial{config_.endpoint});
}

// No standby can get a majority in the round in which leadership was lost.
void Agent::lead_again(TimePoint now, Actions& actions) {
  is_deposed_ = false;
  // Its workers are still stopping. Afterwards it asks here for a seat.
  if (facts_.hosts_coordinator) return;
  hang_up(now, "this node is the leader again", actions);
  if (phase_ == Phase::joining) phase_.become(Phase::dialing);
  facts_.hosts_coordinator = true;
  link_.become_local(true);
  turned_away_ = false;
  is_at_standby_ = false;
  vote_.reset();
  standby_.reset();
  if (phase_ != Phase::succeeded) wait_for_a_seat(now, Phase::dialing);
  actions.emplace_back(agent::TellNote{"leadership resumed: this node is the leader again"});
  actions.emplace_back(agent::Dial{config_.endpoint});
}

// `master` is the master from now on. Any node may become the leader and must then know all former
// masters.
void Agent::turn_to(TimePoint now, const Endpoint& master, Actions& actions) {
  if (master == config_.endpoint) return;
  if (has_had_seat_) {
    const Duration patience = bounds::vote_patience(config_.lease());
    const Duration silence = vote_ ? now - (vote_->from - patience) : Duration{};
    actions.emplace_back(
        agent::TellTurned{.from = config_.endpoint, .to = master, .silence = silence});
  }
  std::erase(old_masters_, master);
  if (std::ranges::find(old_masters_, config_.endpoint) == old_masters_.end()) {
    old_masters_.push_back(config_.endpoint);
  }
  if (old_masters_.size() > bounds::masters_looked_for_max) {
    old_masters_.erase(old_masters_.begin() + 1);  // keep the first: all nodes were started with it
  }
  config_.endpoint = master;
  facts_.node.master_host = master.host;
}

bool Agent::looks_for_masters() const {
  return facts_.hosts_coordinator && !old_masters_.empty();
}

// A restarted former master would wait for nodes that are all here, or continue without them.
void Agent::look_for_old_masters(TimePoint now, Actions& actions) {
  if (!looks_for_masters() || now < master_look_due_) return;
  master_look_due_ = now + bounds::master_look_pause;
  // One probe at a time.
  const Endpoint& master = old_masters_[master_looked_for_++ % old_masters_.size()];
  actions.emplace_back(agent::AskWhoHosts{{master.host},
                                          master.port,
                                          {.job = config_.job,
                                           .host = facts_.host,
                                           .pid = facts_.pid,
                                           .agent = facts_.agent,
                                           .leads_address = config_.endpoint.host,
                                           .leads_port = config_.endpoint.port}});
}

// The coordinator that was asked for a seat, or the one in this process, lost leadership. If the
// round has drained, leadership was transferred: to this node, if the address is its own.
void Agent::led(TimePoint now, const link::Led& led, Actions& actions) {
  if (in_round() && phase_ != Phase::drained) return;
  if (stopped_by_) return exit_by_signal(actions);
  if (phase_ == Phase::drained) {
    const bool is_here = is_the_standby() && led.address == standby_->address &&
                         led.port == standby_->port && !facts_.hosts_coordinator;
    give_up_drained_seat();
    if (is_here) {
      actions.emplace_back(agent::TakeOver{own_join(now, {})});
      return;
    }
    standby_.reset();
    wait_for_a_seat(now, Phase::dialing);
  }
  turn_to(now, {led.address, led.port}, actions);
  waiting_for_ = "the leader of this job is at " + to_string(config_.endpoint);
  if (facts_.hosts_coordinator) step_down(now, actions);
}

void Agent::give_up_drained_seat() {
  vote_.reset();
  sealed_.reset();
  link_.lose_seat();
  said_in_round_.clear();
  pending_failures_ = {};
}

void Agent::on(TimePoint, const agent::LeadsUntil& event, Actions&) {
  leads_until_ = event.until;
}

// A round is sealed. The coordinator that sealed it is the one to follow from now on.
void Agent::follow_standby(TimePoint now, Actions& actions) {
  if (is_at_standby_) turn_to(now, standby_dialled_, actions);
  is_at_standby_ = false;
  turned_away_ = false;
  vote_.reset();
  standby_.reset();
  may_vote_ = false;
  record_ = {};
  own_standby_.reset();
  own_place_.reset();
  link_.beat_every({});
}

// The coordinator in this process lost leadership. The standby may be the leader; this node asks it
// for a seat like any other node.
void Agent::step_down(TimePoint now, Actions& actions) {
  is_deposed_ = false;
  facts_.hosts_coordinator = false;
  leads_until_.reset();
  link_.become_local(false);
  turned_away_ = true;
  if (phase_ == Phase::joining) phase_.become(Phase::dialing);
  actions.emplace_back(agent::StepDown{});
  link_.dial_by(now + standby_pause);
}

}  // namespace cpprun
