// SPDX-License-Identifier: BSD-3-Clause
// The part of Job that appoints the standby, and that stops deciding when the standby may have
// taken over. RoundVotes defines the rules.

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>

#include "proto/bounds.h"
#include "rendezvous/job/job.h"
#include "rendezvous/job/job_time.h"

namespace cpprun {

namespace {

bool can_stand_by(const Member& member, Member::State state) {
  return member.state == state && member.connected && !member.leaving && !member.local &&
         member.join.can_lead;
}

// In parentheses; empty if there should be a standby.
std::string_view why_no_standby(const JobTerms& terms, const JobOptions& options,
                                std::size_t seated) {
  if (!terms.elastic()) return " (a job of a fixed size has none)";
  if (!options.standby) return " (--standby=none)";
  return seated < bounds::standby_nodes_min ? " (it takes three nodes)" : "";
}

}  // namespace

// Picks the first capable node, so that it is mostly the same in each round. A job of fixed size
// has no standby: it would need a replacement for the lost node, and a new node knows only the
// master.
void Job::choose_standby(coordinator::Actions& actions) {
  forget_standby();
  votes_.begin(round_.seated());
  if (!options_.standby || !terms_.elastic() || round_.local_member() == nullptr) return;
  if (round_.seated() < bounds::standby_nodes_min) return;
  for (const auto& [link, member] : round_.members()) {
    if (!can_stand_by(*member, Member::State::running)) continue;
    standby_ = Standing{.link = link, .address = member->peer};
    actions.emplace_back(coordinator::ShowRecord{terms_.id, link});
    return;
  }
}

// A standby is useful in this round: nodes may vote in it, or will.
bool Job::may_appoint() const {
  if (round_.phase() == Round::Phase::sealed) return true;
  return round_.phase() == Round::Phase::draining && votes_.may_be_lost() && !recalls_votes_ &&
         !round_end_.stop;
}

std::vector<LinkId> Job::voters_left() const {
  std::vector<LinkId> voters;
  for (const auto& [link, member] : round_.members()) {
    const bool has_seat = member->state != Member::State::waiting;
    if (has_seat && !member->local && !member->leaving && !votes_.is_released(link)) {
      voters.push_back(link);
    }
  }
  return voters;
}

// Nodes leave the round while it drains. If the coordinator is lost before the next round, a
// standby must be among the remaining nodes, and they must be enough for its majority. Returns true
// if the standby is sent the record.
bool Job::replace_standby(coordinator::Actions& actions) {
  if (!standby_ || !may_appoint() || round_.phase() != Round::Phase::draining) return false;
  const Member* const standby = round_.find(standby_->link);
  const bool stays = standby != nullptr && !standby->leaving;
  // Neither the coordinator's own node nor a spare can vote. Counting must be cheap, because ten
  // thousand nodes get here one by one.
  const Member* const host = round_.local_member();
  const std::size_t host_stays = host != nullptr && !host->leaving ? 1 : 0;
  const std::size_t others = host_stays + round_.count(Member::State::waiting);
  if (stays && round_.staying() >= votes_.votes_needed() + others) return false;
  const std::vector<LinkId> voters = voters_left();
  Standing next = *standby_;
  if (!stays) {
    const auto found = std::ranges::find_if(voters, [this](LinkId link) {
      const Member& member = *round_.find(link);
      return can_stand_by(member, Member::State::running) ||
             can_stand_by(member, Member::State::drained);
    });
    if (found == voters.end()) return false;
    next = {.link = *found, .address = round_.find(*found)->peer};
  }
  if (!votes_.appoint_again(next.link, voters)) return false;
  standby_ = std::move(next);
  actions.emplace_back(coordinator::ShowRecord{terms_.id, standby_->link});
  return true;
}

// The standby reconnects. It may have received nothing or only part of the record.
void Job::show_record_again(LinkId link, coordinator::Actions& actions) const {
  if (!standby_ || standby_->link != link || standby_->port != 0) return;
  if (!may_appoint() && !transfer_until_) return;
  actions.emplace_back(coordinator::ShowRecord{terms_.id, link});
}

// From here on no node can take over from this coordinator.
void Job::forget_standby() {
  standby_.reset();
  votes_.end();
  leads_until_.reset();
  lead_look_due_.reset();
}

std::optional<link::Standby> Job::standby_place() const {
  if (!standby_ || standby_->port == 0) return std::nullopt;
  return link::Standby{round_.number(), standby_->address, standby_->port};
}

std::optional<GroupRank> Job::standby_node() const {
  const Member* const member = standby_place() ? round_.find(standby_->link) : nullptr;
  return member == nullptr ? std::nullopt : member->group_rank;
}

std::string Job::cover_text() const {
  if (over() || round_.phase() != Round::Phase::sealed || round_.seated() < 2) return {};
  const Member* const host = round_.local_member();
  if (host == nullptr) return "if the machine of its cpprund is lost, the job is lost";
  if (!standby_node()) {
    const std::string_view why =
        standby_ ? " yet" : why_no_standby(terms_, options_, round_.seated());
    return fmt::format("no standby{}: the job ends if {} is lost", why, name_of(*host));
  }
  return fmt::format("if {} is lost, {} resumes the job", name_of(*host),
                     name_of(*round_.find(standby_->link)));
}

std::string Job::exposure_text() const {
  if (over() || round_.phase() != Round::Phase::sealed || round_.seated() < 2) return {};
  const Member* const host = round_.local_member();
  // Only where there should be a standby and is none.
  if (host == nullptr || standby_) return {};
  if (!why_no_standby(terms_, options_, round_.seated()).empty()) return {};
  return fmt::format("{}; run this version of cpprun on all nodes, or let two cpprunds host it",
                     cover_text());
}

void Job::stands(TimePoint now, LinkId link, const link::Stands& stands,
                 coordinator::Actions& actions) {
  const bool is_successor = transfer_until_.has_value();
  if (!standby_ || standby_->link != link) return;
  if (!may_appoint() && !is_successor) return;
  if (standby_->port != 0) return;  // repeated on a new link, or for a newer record
  standby_->port = stands.port;
  if (is_successor) {
    // The other nodes follow it when it leads.
    actions.emplace_back(coordinator::Say{link, *standby_place()});
    transfer_until_.reset();
    return settle(now, actions);
  }
  for (const auto& [each, member] : round_.members()) tell_standby(now, each, actions);
  // After those messages, so that the votes of ten thousand nodes are evaluated only once. A
  // standby that replaces another was appointed before.
  if (!votes_.has_standby()) votes_.appoint(link);
  look_at_lead(now, actions);
}

// Spares as well: they cannot vote, but must know where to connect.
void Job::tell_standby(TimePoint now, LinkId link, coordinator::Actions& actions) {
  const auto place = standby_place();
  const Member* const member = round_.find(link);
  if (!place || member == nullptr || !may_appoint()) return;
  if (!member->connected || !member->join.can_lead) return;
  const bool is_voter = !member->local && member->state == Member::State::running;
  if (is_voter) {
    const link::Join& join = member->join;
    votes_.may_vote(link, now);
    votes_.identify(link, {.host = join.host, .pid = join.pid, .number = join.agent});
    see_lead(now);
  }
  actions.emplace_back(coordinator::Say{link, *place});
}

void Job::look_at_lead(TimePoint now, coordinator::Actions& actions) {
  if (is_deposed_ || over()) return;
  see_lead(now);
  if (leads_until_ && *leads_until_ <= now) depose(now, actions);
}

void Job::see_lead(TimePoint now) {
  leads_until_ = votes_.until();
  lead_look_due_.reset();
  if (!leads_until_) return;
  lead_look_due_ = std::min(*leads_until_, now + options_.lease / bounds::lead_looks_per_lease);
}

bool Job::step_aside(TimePoint now, const link::Led& led, coordinator::Actions& actions) {
  if (is_deposed_) return true;
  if ((steps_ > 0 && !transfer_until_) || over()) return false;
  if (std::exchange(transfer_until_, std::nullopt)) transferred_to_ = led;
  const TimeKept kept{*this, now};
  close_time(now);
  forget_standby();
  stop_deciding(now);
  for (const auto& [link, member] : round_.members()) {
    if (member->connected && member->join.can_lead)
      actions.emplace_back(coordinator::Say{link, led});
    if (member->connected && !member->local) {
      actions.emplace_back(coordinator::HangUp{link, "its job is led elsewhere"});
    }
  }
  return true;
}

// A node may vote until its round has drained, so that the job continues if this coordinator is
// lost meanwhile. Not if the job is being stopped, or that node leaves.
link::Drain Job::drain_of_round(const Member& member) const {
  const bool ends = round_end_.stop.has_value();
  return {.round = round_.number(),
          .reason = round_end_.reason,
          .keeps_vote = votes_.may_be_lost() && !ends && !recalls_votes_ && !member.leaving,
          .ends_job = ends};
}

void Job::tell_drain(coordinator::Actions& actions) const {
  for (const auto& [link, member] : round_.members()) {
    if (member->connected && member->state != Member::State::waiting) {
      actions.emplace_back(coordinator::Say{link, drain_of_round(*member)});
    }
  }
}

// Each node answers with Drained as soon as it has drained.
void Job::recall_votes(coordinator::Actions& actions) {
  if (votes_.may_be_lost() && !std::exchange(recalls_votes_, true)) tell_drain(actions);
}

// The job must continue without this node. Ctrl-C is excluded: it means that the job is to end.
bool Job::may_transfer_leadership(const Member& member, const link::Leave& leave) const {
  return member.local && leave.signal == SIGTERM && standby_ && !round_end_.stop &&
         round_.staying() > static_cast<std::size_t>(terms_.nodes_min);
}

// The round has drained, and all votes in it are given up. The standby leads with the record of
// this moment and reports that (step_aside()); before that, no other node is sent to it. Returns
// false if the job ends, as without a standby.
bool Job::transfer_leadership(TimePoint now, coordinator::Actions& actions) {
  if (transfer_until_) return true;
  const bool are_enough = round_.staying() >= static_cast<std::size_t>(terms_.nodes_min);
  if (!are_enough || !would_restart(now) || !choose_successor()) {
    abort_transfer();
    return false;
  }
  transfer_until_ = now + bounds::hand_over_patience;
  actions.emplace_back(coordinator::ShowRecord{terms_.id, standby_->link});
  if (standby_->port == 0) return true;
  transfer_link_ = standby_->link;
  actions.emplace_back(
      coordinator::Say{standby_->link, link::Led{standby_->address, standby_->port}});
  return true;
}

// Only a preview: the new leader decides what follows, and counts the restart.
bool Job::would_restart(TimePoint now) {
  const RestartPolicy before = policy_;
  const bool restarts = judge(now).restart;
  policy_ = before;
  return restarts;
}

// The standby, or another node if the standby is lost or leaves as well.
bool Job::choose_successor() {
  const Member* const standby = round_.find(standby_->link);
  if (standby != nullptr && can_stand_by(*standby, Member::State::drained)) return true;
  for (const auto& [link, member] : round_.members()) {
    if (!can_stand_by(*member, Member::State::drained)) continue;
    standby_ = Standing{.link = link, .address = member->peer};
    return true;
  }
  return false;
}

void Job::abort_transfer() {
  if (!round_end_.stop) {
    round_end_.stop = own_leave_;
    round_end_.why_no_other = "the master leaves: " + own_leave_->reason;
  }
  own_leave_.reset();
  transfer_until_.reset();
}

// The standby has received a reply newer than the offer, on the link on which the offer was made,
// and is still connected: it does not support transfers.
void Job::decline_transfer(TimePoint now, LinkId link, const link::Heartbeat& beat,
                           coordinator::Actions& actions) {
  if (!transfer_until_ || !standby_ || standby_->link != link || standby_->port == 0) return;
  const TimePoint offered = *transfer_until_ - bounds::hand_over_patience;
  if (transfer_link_ != link || TimePoint{beat.moment} <= offered) return;
  abort_transfer();
  settle(now, actions);
}

void Job::stop_deciding(TimePoint now) {
  since_ = now;
  transfer_until_.reset();
  is_deposed_ = true;
  leads_until_.reset();
  lead_look_due_.reset();
  status_due_.reset();
  pause_until_.reset();
  record_due_.reset();
  last_call_.cancel();
  for (const auto& [link, member] : round_.members()) leases_.forget(link);
}

// Nodes that have received nothing for this long may follow the standby by now. The workers of this
// node are killed at once, as everywhere when a seat is lost. No message is sent that may be false.
// The round is over in either case: it drains, and the known votes in it are kept (lead_again()).
void Job::depose(TimePoint now, coordinator::Actions& actions) {
  const std::string why = fmt::format(
      "too few of the {} nodes of round {} answer: the standby at {} may lead them by now",
      round_.seated(), round_.number().value, standby_ ? standby_->address : "?");
  actions.emplace_back(coordinator::Note{.line = why, .level = LogLevel::warning});
  for (const auto& [link, member] : round_.members()) {
    if (member->local) actions.emplace_back(coordinator::Say{link, link::Refused{why}});
    if (!member->local && member->connected) actions.emplace_back(coordinator::HangUp{link, why});
  }
  if (round_.phase() == Round::Phase::sealed) {
    round_end_.change = true;
    begin_draining(now, why);
  }
  has_lost_its_store_ = true;
  stop_deciding(now);
}

// The node connects on a newer link than the one on which it had the seat. An agent uses one link
// at a time, so it has given up the seat since, and the vote with it.
bool Job::takes_back_vote(const Caller& caller, const link::Join& join) {
  if (!is_deposed_ || over() || join.vote != RoundNumber{}) return false;
  const bool has_done_its_part = join.done && join.after == round_.number();
  if (join.after != RoundNumber{} && !has_done_its_part) return false;
  const auto voter = votes_.voter({.host = join.host, .pid = join.pid, .number = join.agent});
  if (!voter || !(*voter < caller.link)) return false;
  votes_.released(*voter);
  return votes_.may_be_lost() && votes_.is_settled();
}

void Job::lead_again(TimePoint now, coordinator::Actions& actions) {
  is_deposed_ = false;
  const TimeKept kept{*this, now};
  since_ = now;
  ++steps_;
  status_due_ = now + options_.status_interval;
  for (const auto& [link, member] : round_.members()) {
    if (!member->local) leases_.renew(link, now);
  }
  actions.emplace_back(coordinator::Note{
      fmt::format("leadership resumed: no standby can take over round {}; the next round follows",
                  round_.number().value)});
  actions.emplace_back(coordinator::Lead{.job = terms_.id, .again = true});
}

}  // namespace cpprun
