// SPDX-License-Identifier: BSD-3-Clause
// The part of Job that admits nodes: newcomers, and agents that reconnect through a newer link.

#include <fmt/format.h>

#include <utility>

#include "proto/link/message.h"
#include "rendezvous/job/job.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/job_texts.h"
#include "rendezvous/job/job_time.h"

namespace cpprun {

void Job::join(TimePoint now, const Caller& caller, const link::Join& join,
               coordinator::Actions& actions) {
  if (is_deposed_) return;  // its coordinator closes the link
  const TimeKept kept{*this, now};
  const auto known = round_.find_agent(join, caller.peer);
  // It is the same agent, whatever happened to its seat.
  auto further_peers = known ? round_.find(*known)->further_peers : std::vector<std::string>{};
  if (rejoin(now, caller, join, actions)) return;
  if (turn_away(now, caller, join, actions)) return;
  auto reason = join_check(terms_, round_, options_.lease, join);
  if (finish_) {
    // The node is late, or a spare that was never needed: it ends as the job did. A node that may
    // still have workers of the job is rejected, because they must end first.
    reason = disagreement(terms_, join);
    if (!reason && join.after != RoundNumber{} && !join.idle) {
      reason = fmt::format("{} is over: {}", quoted_job(terms_.id), finish_->reason);
    }
    if (!reason) {
      actions.emplace_back(coordinator::Say{caller.link, link::brief(*finish_)});
      actions.emplace_back(coordinator::HangUp{caller.link, "its job is over"});
      return;
    }
  }
  if (reason) {
    coordinator::refuse({caller.link, caller.peer}, join.host, *reason, actions);
    settle(now, actions);  // Its older link, now gone, may have been the last thing waited for.
    return;
  }
  // It repeats the number of its last round, under another master: we must not use that number
  // again.
  round_.number_from(join.after);
  auto wait = wait_for_seat(join);
  round_.enter(caller.link, {.join = join,
                             .peer = caller.peer,
                             .further_peers = std::move(further_peers),
                             .local = caller.local,
                             .since = now});
  if (!since_) since_ = now;
  actions.emplace_back(change_of(*round_.find(caller.link), coordinator::NodeChange::Kind::joined));
  if (!caller.local) {
    leases_.renew(caller.link, now);
    round_.clock_of(caller.link).heard(now, join.sent);
  }
  switch (round_.phase()) {
    case Round::Phase::gathering:
      if (!status_due_) status_due_ = now + options_.status_interval;
      consider_sealing(now, actions);
      break;
    case Round::Phase::sealed:
      consider_growing(now, caller.link, actions);
      break;
    case Round::Phase::draining:
      // It is present when the round gathers again. That may be now, if it was in this round, its
      // last message was lost with its link, and no other node was waited for.
      settle(now, actions);
      break;
  }
  // The round may just have been sealed with it; then there is no standby yet.
  tell_standby(now, caller.link, actions);
  if (!wait) return;
  wait->spare = round_.phase() == Round::Phase::sealed;
  actions.emplace_back(coordinator::Say{caller.link, *wait});
}

// The same agent on a newer link, possibly before we noticed that the older one broke. It may have
// missed messages on that one. Returns false if it is to be treated as a new node.
bool Job::rejoin(TimePoint now, const Caller& caller, const link::Join& join,
                 coordinator::Actions& actions) {
  const auto old_link = round_.find_agent(join, caller.peer);
  if (!old_link) return false;
  const Member member = *round_.find(*old_link);
  const bool is_of_a_round = join.after != RoundNumber{};
  const bool knows_its_round = is_of_a_round && join.after == round_.number();
  if (!knows_its_round && (is_of_a_round ? !join.idle : member.peer != caller.peer)) return false;
  if (caller.link < *old_link) {
    // A late message through the older link: connections overtake each other.
    actions.emplace_back(coordinator::HangUp{caller.link, "its agent speaks through a newer link"});
    return true;
  }
  if (knows_its_round) {
    if (!join.idle || join.done) has_resumed_ = true;
    resume(now, *old_link, caller, join, actions);
    show_record_again(caller.link, actions);
    let_go(caller.link, actions);
    // It may have been the last node waited for.
    settle(now, actions);
    consider_lost_store(now, actions);
    consider_sealing(now, actions);
    return true;
  }
  const bool is_alike = member.join.node_rank == join.node_rank && !over() &&
                        member.join.local_world_size == join.local_world_size;
  // The workers it ended were of an earlier round: it missed the message that gives it a seat in
  // this one.
  const bool has_not_heard = is_of_a_round ? join.after.value < round_.number().value : join.fresh;
  const bool may_hear = round_.phase() == Round::Phase::sealed && !has_lost_its_store_;
  if (member.state == Member::State::running && is_alike && has_not_heard && may_hear) {
    if (auto seat = round_.seat_of(*old_link)) {
      resume(now, *old_link, caller, join, actions);
      say_seat(caller.link, *std::move(seat), actions);
      show_record_again(caller.link, actions);
      tell_standby(now, caller.link, actions);  // it ignores a standby before it has a seat
      let_go(caller.link, actions);
      return true;
    }
  }
  if (member.state == Member::State::running && is_alike) {
    rejoin_without_seat(now, *old_link, caller, join, actions);
    return true;
  }
  give_up_seat(now, *old_link, actions);
  actions.emplace_back(coordinator::HangUp{*old_link, "its agent speaks through a newer link"});
  leases_.forget(*old_link);
  round_.leave(*old_link);
  return false;
}

// The node has ended its workers and given up its seat, or may have: none of its workers is alive,
// and it waits for the next round.
void Job::rejoin_without_seat(TimePoint now, LinkId old_link, const Caller& caller,
                              const link::Join& join, coordinator::Actions& actions) {
  give_up_seat(now, old_link, actions);
  resume(now, old_link, caller, join, actions);
  // It reconnected to this coordinator, and voted for no standby.
  if (join.vote == RoundNumber{}) votes_.released(caller.link);
  round_.set_state(caller.link, Member::State::drained, now);
  let_go(caller.link, actions);
  settle(now, actions);
}

// The other nodes cannot continue without the workers that are missing there.
void Job::give_up_seat(TimePoint now, LinkId link, coordinator::Actions& actions) {
  const Member& member = *round_.find(link);
  if (over() || round_.phase() != Round::Phase::sealed) return;
  if (member.state != Member::State::running) return;
  const std::string why = fmt::format("{} is back without its seat", name_of(member));
  round_end_.change = true;
  // It must not be asked to drain: it is in no round.
  round_.set_state(link, Member::State::waiting, now);
  break_round(now, why, actions);
}

// The agent's link broke and it is back in time. Its workers noticed nothing.
void Job::resume(TimePoint now, LinkId old_link, const Caller& caller, const link::Join& join,
                 coordinator::Actions& actions) {
  if (round_.find(old_link)->connected) {
    actions.emplace_back(coordinator::HangUp{old_link, "its agent speaks through a newer link"});
  }
  leases_.move(old_link, caller.link);
  round_.move(old_link, caller.link);
  round_.set_broken(caller.link, std::nullopt);
  votes_.moved(old_link, caller.link);
  if (standby_ && standby_->link == old_link) standby_->link = caller.link;
  if (round_.add_peer(caller.link, caller.peer)) admission_.follow(round_);
  if (caller.local) {
    // The standby's own agent, which was connected through a link before.
    round_.set_local(caller.link);
    leases_.forget(caller.link);
  } else {
    leases_.renew(caller.link, now);
    round_.clock_of(caller.link).heard(now, join.sent);
  }
  // Tells it that its own lease is renewed.
  actions.emplace_back(coordinator::Say{caller.link, link::Heartbeat{.sent = join.sent}});
  actions.emplace_back(
      coordinator::Note{fmt::format("the link of {} is back", name_of(*round_.find(caller.link)))});
  tell_standby(now, caller.link, actions);
  refuse_claimant(caller.link, actions);
  // It will report that again in a moment, but by then it may have been told to restart.
  if (has_lost_its_store_ && join.done && !over() && round_.phase() == Round::Phase::sealed &&
      round_.find(caller.link)->state == Member::State::running) {
    round_.set_state(caller.link, Member::State::succeeded, now);
  }
  if (finish_) {
    actions.emplace_back(coordinator::Say{caller.link, link::brief(*finish_)});
  } else if (round_.phase() == Round::Phase::draining && join.after == round_.number()) {
    actions.emplace_back(coordinator::Say{caller.link, drain_of_round(*round_.find(caller.link))});
  }
}

// The agent is identified by its number, which only its coordinator knows.
bool Job::speaks_from(const link::WhoHosts& agent, const std::string& peer) {
  const auto link = round_.find_agent(
      link::Join{.host = agent.host, .pid = agent.pid, .agent = agent.agent}, peer);
  if (!link || round_.find(*link)->local) return false;
  if (round_.add_peer(*link, peer)) admission_.follow(round_);
  return true;
}

// It has drained and waits for the next round. If that round were sealed without it, it would have
// to be broken for it at once.
bool Job::may_rejoin(const Member& member) const {
  if (member.local || member.leaving || !member.group_rank) return false;
  if (round_.phase() == Round::Phase::draining) return member.state == Member::State::drained;
  return round_.phase() == Round::Phase::gathering;
}

void Job::tell_spares(std::optional<LinkId> only, coordinator::Actions& actions) {
  const bool is_full = round_.seated() >= static_cast<std::size_t>(terms_.nodes_max);
  const link::Waiting waiting{
      .reason = is_full
                    ? fmt::format("all {} seats are taken; this node is a spare", terms_.nodes_max)
                    : "some nodes have finished their work; this node is a spare",
      .spare = true};
  if (only) {
    actions.emplace_back(coordinator::Say{*only, waiting});
    return;
  }
  for (const auto& [link, member] : round_.members()) {
    if (member->state != Member::State::waiting || !member->connected) continue;
    actions.emplace_back(coordinator::Say{link, waiting});
  }
}

// A node was started to replace another, which may be dead. The seat becomes free when the old node
// is lost, and stays taken if the old node sends another message.
std::optional<link::Waiting> Job::wait_for_seat(const link::Join& join) const {
  const Member* holder = join.node_rank ? round_.holder_of(*join.node_rank) : nullptr;
  if (holder == nullptr) return std::nullopt;
  return link::Waiting{fmt::format(
      "node rank {} is that of {} (pid {}){} within {} s its seat is free", *join.node_rank,
      holder->join.host, holder->join.pid,
      holder->connected ? "; if that says nothing" : ", whose link broke; if it is not back",
      in_seconds(lease()))};
}

// The node whose seat was claimed is alive: rejects the claimant. Returns false if there is none.
bool Job::refuse_claimant(LinkId holder, coordinator::Actions& actions) {
  const Member* const member = round_.claims() == 0 ? nullptr : round_.find(holder);
  if (member == nullptr || member->claims || !member->join.node_rank) return false;
  const auto link = round_.claimant_of(*member->join.node_rank);
  if (!link) return false;
  const Member claimant = *round_.find(*link);
  leases_.forget(*link);
  round_.leave(*link);
  coordinator::refuse({*link, claimant.peer}, claimant.join.host,
                      seat_taken_text(terms_, *member, claimant.join), actions);
  return true;
}

}  // namespace cpprun
