// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_leadership.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string_view>

#include "rendezvous/job/bounds.h"

namespace cpprun {

namespace {

bool can_stand_by(const Member& member, Member::State state) {
  return member.state == state && member.connected && !member.leaving && !member.local &&
         member.join.can_lead;
}

}  // namespace

JobLeadership::JobLeadership(const JobTerms& terms, const JobOptions& options)
    : job_(terms.id),
      nodes_min_(static_cast<std::size_t>(terms.nodes_min)),
      is_elastic_(terms.elastic()),
      is_wanted_(options.standby),
      keeps_workers_(terms.restarts.reconfigures),
      lease_(options.lease),
      votes_(options.lease) {}

// A job of fixed size has no standby: it would need a replacement for the lost node, and a new node
// knows only the master.
void JobLeadership::begin(const Round& round, Actions& actions) {
  end();
  round_ = round.number();
  votes_.begin(round.seated());
  if (!is_wanted_ || !is_elastic_ || round.local_member() == nullptr) return;
  if (round.seated() < bounds::standby_nodes_min) return;
  for (const auto& [link, member] : round.members()) {
    if (!can_stand_by(*member, Member::State::running)) continue;
    standby_ = Standby{.link = link, .address = member->peer};
    actions.emplace_back(coordinator::ShowRecord{job_, link});
    return;
  }
}

void JobLeadership::end() {
  standby_.reset();
  votes_.end();
  recalls_votes_ = false;
  leads_until_.reset();
  look_due_.reset();
}

std::optional<link::Standby> JobLeadership::standby_place() const {
  if (!standby_ || standby_->port == 0) return std::nullopt;
  return link::Standby{round_, standby_->address, standby_->port};
}

std::optional<GroupRank> JobLeadership::standby_node(const Round& round) const {
  const Member* const member = standby_place() ? round.find(standby_->link) : nullptr;
  return member == nullptr ? std::nullopt : member->group_rank;
}

// In parentheses; empty if there should be a standby.
const char* JobLeadership::why_no_standby(std::size_t seated) const {
  if (!is_elastic_) return " (fixed-size jobs have none)";
  if (!is_wanted_) return " (--standby=none)";
  return seated < bounds::standby_nodes_min ? " (needs three nodes)" : "";
}

std::string JobLeadership::cover_text(const Round& round) const {
  if (round.phase() != Round::Phase::sealed || round.seated() < 2) return {};
  const Member* const host = round.local_member();
  if (host == nullptr) return "the job ends if the machine of its cpprund is lost";
  if (!standby_node(round)) {
    return fmt::format("no standby{}: the job ends if {} is lost",
                       standby_ ? " yet" : why_no_standby(round.seated()), name_of(*host));
  }
  return fmt::format("if {} is lost, {} resumes the job", name_of(*host),
                     name_of(*round.find(standby_->link)));
}

std::string JobLeadership::exposure_text(const Round& round) const {
  if (round.phase() != Round::Phase::sealed || round.seated() < 2) return {};
  // Only where there should be a standby and is none.
  if (round.local_member() == nullptr || standby_) return {};
  if (*why_no_standby(round.seated()) != '\0') return {};
  return fmt::format(
      "{}; run this version of cpprun on all nodes, or host the job with two cpprunds",
      cover_text(round));
}

// A standby is useful in this round: nodes may vote in it, or will.
bool JobLeadership::may_appoint(const Round& round, const RoundEnd& round_end) const {
  if (round.phase() == Round::Phase::sealed) return true;
  return round.phase() == Round::Phase::draining && votes_.may_be_lost() && !recalls_votes_ &&
         !round_end.stop;
}

std::vector<LinkId> JobLeadership::voters_left(const Round& round) const {
  std::vector<LinkId> voters;
  for (const auto& [link, member] : round.members()) {
    const bool has_seat = member->state != Member::State::waiting;
    if (has_seat && !member->local && !member->leaving && !votes_.is_released(link)) {
      voters.push_back(link);
    }
  }
  return voters;
}

bool JobLeadership::replace_standby(const Round& round, const RoundEnd& round_end,
                                    Actions& actions) {
  if (!standby_ || !may_appoint(round, round_end)) return false;
  if (round.phase() != Round::Phase::draining) return false;
  const Member* const standby = round.find(standby_->link);
  const bool stays = standby != nullptr && !standby->leaving;
  // Neither the coordinator's own node nor a spare can vote. Counting must be cheap, because ten
  // thousand nodes get here one by one.
  const Member* const host = round.local_member();
  const std::size_t host_stays = host != nullptr && !host->leaving ? 1 : 0;
  const std::size_t others = host_stays + round.count(Member::State::waiting);
  if (stays && round.staying() >= votes_.votes_needed() + others) return false;
  const std::vector<LinkId> voters = voters_left(round);
  Standby next = *standby_;
  if (!stays) {
    const auto found = std::ranges::find_if(voters, [&round](LinkId link) {
      const Member& member = *round.find(link);
      return can_stand_by(member, Member::State::running) ||
             can_stand_by(member, Member::State::drained);
    });
    if (found == voters.end()) return false;
    next = {.link = *found, .address = round.find(*found)->peer};
  }
  if (!votes_.appoint_again(next.link, voters)) return false;
  standby_ = std::move(next);
  actions.emplace_back(coordinator::ShowRecord{job_, standby_->link});
  return true;
}

void JobLeadership::show_record_again(LinkId link, const Round& round, const RoundEnd& round_end,
                                      Actions& actions) const {
  if (!standby_ || standby_->link != link || standby_->port != 0) return;
  if (!may_appoint(round, round_end) && !transfer_until_) return;
  actions.emplace_back(coordinator::ShowRecord{job_, link});
}

bool JobLeadership::stands(TimePoint now, LinkId link, const link::Stands& stands,
                           const Round& round, const RoundEnd& round_end, Actions& actions) {
  if (!standby_ || standby_->link != link) return false;
  if (!may_appoint(round, round_end) && !transfer_until_) return false;
  if (standby_->port != 0) return false;  // repeated on a new link, or for a newer record
  standby_->port = stands.port;
  if (transfer_until_) {
    // The other nodes follow it when it leads.
    actions.emplace_back(coordinator::Say{link, *standby_place()});
    transfer_until_.reset();
    return true;
  }
  for (const auto& [each, member] : round.members()) {
    announce(now, each, round, round_end, actions);
  }
  // After those messages, so that the votes of ten thousand nodes are evaluated only once. A
  // standby that replaces another was appointed before.
  if (!votes_.has_standby()) votes_.appoint(link);
  return true;
}

// Spares as well: they cannot vote, but must know where to connect.
void JobLeadership::announce(TimePoint now, LinkId link, const Round& round,
                             const RoundEnd& round_end, Actions& actions) {
  const auto place = standby_place();
  const Member* const member = round.find(link);
  if (!place || member == nullptr || !may_appoint(round, round_end)) return;
  if (!member->connected || !member->join.can_lead) return;
  const bool is_voter = !member->local && member->state == Member::State::running;
  if (is_voter) {
    const link::Join& join = member->join;
    votes_.may_vote(link, now);
    votes_.identify(link, {.host = join.host, .pid = join.pid, .number = join.agent});
    update_lease(now);
  }
  actions.emplace_back(coordinator::Say{link, *place});
}

void JobLeadership::moved(LinkId from, LinkId to) {
  votes_.moved(from, to);
  if (standby_ && standby_->link == from) standby_->link = to;
}

link::Drain JobLeadership::drain(const Member& member, const Round& round,
                                 const RoundEnd& round_end) const {
  const bool ends = round_end.stop.has_value();
  return {.round = round.number(),
          .reason = round_end.reason,
          .keeps_vote = votes_.may_be_lost() && !ends && !recalls_votes_ && !member.leaving,
          .ends_job = ends,
          .keeps_workers = keeps_workers_ && !ends && !member.leaving && !is_transfer_requested()};
}

void JobLeadership::send_drain(const Round& round, const RoundEnd& round_end,
                               Actions& actions) const {
  for (const auto& [link, member] : round.members()) {
    if (member->connected && member->state != Member::State::waiting) {
      actions.emplace_back(coordinator::Say{link, drain(*member, round, round_end)});
    }
  }
}

void JobLeadership::recall_votes(const Round& round, const RoundEnd& round_end, Actions& actions) {
  if (!votes_.may_be_lost() || std::exchange(recalls_votes_, true)) return;
  send_drain(round, round_end, actions);
}

// The node connects on a newer link than the one on which it had the seat. An agent uses one link
// at a time, so it has given up the seat since, and the vote with it.
bool JobLeadership::takes_back_vote(LinkId link, const link::Join& join, RoundNumber round) {
  if (!is_deposed_ || join.vote != RoundNumber{}) return false;
  const bool has_done_its_part = join.done && join.after == round;
  if (join.after != RoundNumber{} && !has_done_its_part) return false;
  const auto voter = votes_.voter({.host = join.host, .pid = join.pid, .number = join.agent});
  if (!voter || !(*voter < link)) return false;
  votes_.released(*voter);
  return votes_.may_be_lost() && votes_.is_decided();
}

void JobLeadership::update_lease(TimePoint now) {
  leads_until_ = votes_.until();
  look_due_.reset();
  if (!leads_until_) return;
  look_due_ = std::min(*leads_until_, now + lease_ / bounds::lead_looks_per_lease);
}

bool JobLeadership::is_lost(TimePoint now) {
  update_lease(now);
  return leads_until_ && *leads_until_ <= now;
}

void JobLeadership::depose() {
  is_deposed_ = true;
  transfer_until_.reset();
  leads_until_.reset();
  look_due_.reset();
}

bool JobLeadership::may_transfer(const Member& member, const link::Leave& leave, const Round& round,
                                 const RoundEnd& round_end) const {
  return member.local && leave.signal == SIGTERM && standby_ && !round_end.stop &&
         round.staying() > nodes_min_;
}

bool JobLeadership::offer(TimePoint now, const Round& round, Actions& actions) {
  if (!choose_successor(round)) return false;
  transfer_until_ = now + bounds::hand_over_timeout;
  actions.emplace_back(coordinator::ShowRecord{job_, standby_->link});
  if (standby_->port == 0) return true;
  transfer_link_ = standby_->link;
  actions.emplace_back(
      coordinator::Say{standby_->link, link::Led{standby_->address, standby_->port}});
  return true;
}

// The standby, or another node if the standby is lost or leaves as well.
bool JobLeadership::choose_successor(const Round& round) {
  const Member* const standby = round.find(standby_->link);
  if (standby != nullptr && can_stand_by(*standby, Member::State::drained)) return true;
  for (const auto& [link, member] : round.members()) {
    if (!can_stand_by(*member, Member::State::drained)) continue;
    standby_ = Standby{.link = link, .address = member->peer};
    return true;
  }
  return false;
}

bool JobLeadership::is_declined(LinkId link, const link::Heartbeat& beat) const {
  if (!transfer_until_ || !standby_ || standby_->link != link || standby_->port == 0) return false;
  const TimePoint offered = *transfer_until_ - bounds::hand_over_timeout;
  return transfer_link_ == link && TimePoint{beat.moment} > offered;
}

link::Leave JobLeadership::abort_transfer() {
  transfer_until_.reset();
  return *std::exchange(own_leave_, std::nullopt);
}

void JobLeadership::follow(const link::Led& led) {
  if (transfer_until_) transferred_to_ = led;
  end();
  depose();
}

}  // namespace cpprun
