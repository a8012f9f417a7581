// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "proto/bounds.h"
#include "proto/link/message.h"
#include "proto/state_machine.h"
#include "rendezvous/job/job_texts.h"
#include "rendezvous/job/job_time.h"

namespace cpprun {

namespace {

using coordinator::NodeChange;

bool is_of(const Member& member, Rank rank) {
  const int from_base = rank.value - member.ranks.base.value;
  return from_base >= 0 && from_base < member.join.local_world_size;
}

// If the job already has a leader, that leader must find this node before this node starts the job
// a second time.
Duration search_of(const JobTerms& terms, const JobOptions& options) {
  return options.standby && terms.elastic() ? Duration{bounds::lead_search} : Duration{};
}

}  // namespace

Job::Job(JobTerms terms, JobOptions options)
    : terms_(std::move(terms)),
      options_(options),
      leases_(options.lease + options.patience),
      last_call_({.min = static_cast<std::size_t>(terms_.nodes_min),
                  .max = static_cast<std::size_t>(terms_.nodes_max)},
                 options.last_call, search_of(terms_, options)),
      policy_(terms_.restarts, std::move(options.restarts_before)),
      votes_(options.lease) {}

void Job::hear(TimePoint now, LinkId link, const link::Message& message,
               coordinator::Actions& actions) {
  const TimeKept kept{*this, now};
  const Member* member = round_.find(link);
  if (member == nullptr || is_deposed_) {
    return;  // a late message of an agent that was rejected or lost
  }
  if (!member->local) leases_.renew(link, now);
  // After the end no message changes anything. An agent that still sends one has not received the
  // end yet.
  const auto is_current = [this](RoundNumber round) { return round == round_.number() && !over(); };
  std::visit(Overloaded{
                 [&](const link::Failed& m) {
                   // A node without a seat in this round means another round.
                   if (!is_current(m.round) || member->state == Member::State::waiting) return;
                   if (!is_of(*member, m.failure.rank)) {
                     actions.emplace_back(coordinator::HangUp{
                         link, fmt::format("it told of rank {}, which is none of {}",
                                           m.failure.rank.value, name_of(*member))});
                     return;
                   }
                   failed(now, *member, m, actions);
                 },
                 [&](const link::Succeeded& m) {
                   if (is_current(m.round)) votes_.released(link);
                   if (!is_current(m.round) || member->state != Member::State::running) return;
                   round_.set_state(link, Member::State::succeeded, now);
                   if (!record_due_) record_due_ = now + bounds::done_record_delay(round_.size());
                   settle(now, actions);
                 },
                 [&](const link::Drained& m) {
                   if (is_current(m.round) && m.asked) votes_.released(link);
                   // In any other phase the message is late: no node was asked for it.
                   if (!is_current(m.round) || round_.phase() != Round::Phase::draining) return;
                   if (member->state == Member::State::waiting) return;
                   if (member->state != Member::State::drained) time_.unsaved(m.unsaved);
                   round_end_.come_to(m.reached);
                   round_.set_state(link, Member::State::drained, now);
                   let_go(link, actions);
                   settle(now, actions);
                 },
                 [&](const link::Leave& m) {
                   if (!over()) leave(now, link, m, actions);
                 },
                 [&](const link::Heartbeat& m) {
                   if (!m.notice.empty()) noticed(now, *member, m.notice, actions);
                   // The coordinator's own agent shares its clock, and has no link that could fall
                   // silent.
                   if (member->local) return;
                   round_.clock_of(link).heard(now, m.sent, m.round_trip);
                   decline_transfer(now, link, m, actions);
                   answer(now, link, m, actions);
                 },
                 [&](const link::Stands& m) {
                   if (is_current(m.round)) stands(now, link, m, actions);
                 },
                 [&](const link::Status& m) {
                   if (!is_current(m.round) || member->state == Member::State::waiting) return;
                   round_.figures_of(link).hear(now, m, member->join.local_world_size);
                 },
                 [&](const auto&) {
                   // A second Join, or a message that only coordinators send.
                   actions.emplace_back(
                       coordinator::HangUp{link, "it sent a message that no agent sends here"});
                 },
             },
             message);
  if (over() || is_deposed_ || !refuse_claimant(link, actions)) return;
  settle(now, actions);
  consider_sealing(now, actions);
}

void Job::failed(TimePoint now, const Member& member, link::Failed failed,
                 coordinator::Actions& actions) {
  if (round_.phase() == Round::Phase::gathering) return;
  // A failure never has status 0. Host and ranks come from our records, not from the node.
  if (failed.failure.status == link::ExitStatus{}) failed.failure.status.value = 1;
  failed.failure.host = member.join.host;
  failed.failure.group_rank = member.group_rank.value_or(GroupRank{});
  failed.failure.local_rank = LocalRank{failed.failure.rank.value - member.ranks.base.value};
  if (failed.failure.cause == "stray_interface") {
    failed.failure.message = with_host_of_address(std::move(failed.failure.message), round_);
  }
  const TimePoint at = when(now, member, failed.noticed);
  if (failed.failure.cause == left_early) {
    round_end_.failures.add_leaver(
        {.failure = failed.failure,
         .at = at,
         .what = fmt::format("rank {} on {} exited with code 0 early", failed.failure.rank.value,
                             failed.failure.host),
         .noticed = failed.noticed,
         .heard = now});
    return;
  }
  // Without its store, any failure is a consequence of that.
  if (has_lost_its_store_ && round_.phase() == Round::Phase::sealed) {
    break_for_lost_store(now, actions);
  }
  // What follows from a requested end is no failure. By the node's clock it may seem earlier than
  // the request.
  const bool follows =
      at > round_end_.at || failed.failure.consequence || failed.late || has_lost_its_store_;
  if (round_.phase() == Round::Phase::draining && round_end_.polite() && follows) return;
  const std::string what =
      fmt::format("rank {} on {} failed", failed.failure.rank.value, failed.failure.host);
  if (!member.local) {
    round_end_.failures.realign(failed.failure.group_rank, [&member](link::AgentTime moment) {
      return member.clock.by_coordinator(moment);
    });
  }
  round_end_.failures.add({.failure = failed.failure,
                           .at = at,
                           .what = what,
                           .noticed = failed.noticed,
                           .heard = now,
                           .late = failed.late});
  if (round_.phase() == Round::Phase::sealed) break_round(now, what, actions);
}

void Job::leave(TimePoint now, LinkId link, const link::Leave& leave,
                coordinator::Actions& actions) {
  const Member member = *round_.find(link);
  if (member.leaving) return;  // Already known; repeated on a newer link.
  const std::string says = fmt::format("{} leaves: {}", name_of(member), leave.reason);
  actions.emplace_back(change_of(member, NodeChange::Kind::left, leave.reason));
  const bool has_seat = member.state != Member::State::waiting;
  votes_.released(link);  // it exits, and asks for no other seat
  // Between two rounds all nodes wait, and a job of fixed size cannot continue without this one.
  const bool is_needed =
      round_.phase() == Round::Phase::gathering && member.group_rank && !goes_on_without(member);
  if (!has_seat && !member.local && !is_needed) {
    // None of its processes is alive, and the job does not need it.
    actions.emplace_back(coordinator::Note{says});
    leases_.forget(link);
    round_.leave(link);
    consider_sealing(now, actions);
    return;
  }
  if (round_.phase() == Round::Phase::gathering) {
    // A job that has not started yet cannot start without its master.
    const std::string who =
        member.local ? fmt::format("the master on {}", member.join.host) : name_of(member);
    end({.exit_code = leave.signal == 0 ? 1 : 128 + leave.signal,
         .reason = fmt::format("{} left: {}", who, leave.reason)},
        now, actions);
    return;
  }
  if (goes_on_without(member)) {
    round_end_.change = true;
    round_.mark_leaving(link);
    let_go(link, actions);  // It may have drained already, and does not report that again.
  } else if (may_transfer_leadership(member, leave)) {
    own_leave_ = leave;
    round_end_.change = true;
    round_.mark_leaving(link);
  } else if (!round_end_.stop) {
    round_end_.stop = leave;
    round_end_.why_no_other = says;
    if (steps_ > 0) ++steps_;
  }
  if (round_.phase() == Round::Phase::sealed) {
    break_round(now, says, actions);
  } else if (round_end_.stop) {
    recall_votes(actions);
  }
  round_end_.polite_since(when(now, member, leave.asked), says);
  settle(now, actions);
}

// Gathering: seals the round if all nodes are present, or enough are and the last call has ended.
void Job::consider_sealing(TimePoint now, coordinator::Actions& actions) {
  if (over() || round_.phase() != Round::Phase::gathering || pause_until_) return;
  if (waits_for_links()) return;
  if (meets_again_) return meet_again(now, actions);
  if (last_call_.may_seal(now, round_.size())) seal(now, actions);
}

// Sealed: a node without a seat has joined. If there may be a seat for it, the round is broken
// politely, once for all nodes that join until the last call ends.
void Job::consider_growing(TimePoint now, std::optional<LinkId> newcomer,
                           coordinator::Actions& actions) {
  if (over() || round_.phase() != Round::Phase::sealed) return;
  const std::size_t spares = round_.count(Member::State::waiting);
  const bool was_called = last_call_.over_at().has_value();
  // A node that has finished its work would have to repeat it.
  const bool too_late = round_.count(Member::State::succeeded) > 0;
  if (too_late) last_call_.cancel();
  const bool grows = !too_late && last_call_.may_grow(now, round_.seated(), spares);
  // Earlier spares know this already: a thousand of them must not get a message for each newcomer.
  if (!last_call_.over_at()) tell_spares(was_called ? std::nullopt : newcomer, actions);
  if (!grows) return;
  round_end_.change = true;
  break_round(now, fmt::format("{} more {} here", spares, spares == 1 ? "node is" : "nodes are"),
              actions);
}

void Job::seal(TimePoint now, coordinator::Actions& actions) {
  ++steps_;
  record_due_.reset();
  has_lost_its_store_ = false;
  stalled_since_.reset();
  last_call_.cancel();
  status_due_.reset();
  saves_at_.reset();
  sealed_at_ = now;
  since_ = now;
  time_.sealed(now);
  auto seats = round_.seal(terms_.nodes_max, now);
  history_.sealed(now, round_.number(), policy_.restarts_used());
  admission_.follow(round_);
  actions.emplace_back(
      coordinator::ResetStore{terms_.id, fmt::format("round {} begins", round_.number().value)});
  round_.tell_neighbours(seats);
  for (auto& [link, sealed] : seats) {
    if (!round_.find(link)->local) leases_.renew(link, now);
    say_seat(link, std::move(sealed), actions);
  }
  tell_spares({}, actions);
  choose_standby(actions);
}

void Job::say_seat(LinkId link, link::Sealed sealed, coordinator::Actions& actions) const {
  sealed.restart_count = policy_.restarts_used();
  sealed.store_port = options_.store_port;
  const auto* before = history_.root_of(RoundNumber{sealed.round.value - 1});
  // The agent in this process has received it in full, with `round_over`.
  if (before != nullptr && !round_.find(link)->local) {
    sealed.failed_before = *before;
    sealed = link::brief(std::move(sealed));
  }
  actions.emplace_back(coordinator::Say{link, std::move(sealed)});
}

void Job::break_round(TimePoint now, const std::string& reason, coordinator::Actions& actions) {
  begin_draining(now, reason);
  // So that the standby counts the failure if this coordinator is lost before the round has
  // drained.
  if (!replace_standby(actions) && standby_) {
    actions.emplace_back(coordinator::ShowRecord{terms_.id, standby_->link});
  }
  tell_drain(actions);
}

void Job::begin_draining(TimePoint now, const std::string& reason) {
  assert(!over());
  ++steps_;
  recalls_votes_ = false;
  round_end_.reason = reason;
  round_end_.at = now;
  since_ = now;
  last_call_.cancel();
  time_.broken(now);
  round_.break_up();
  // A node that has finished its part and cannot be reached has nothing to drain.
  std::vector<LinkId> absent;
  for (const auto& [link, member] : round_.members()) {
    if (member->state != Member::State::succeeded || member->connected) continue;
    if (!leases_.watches(link)) absent.push_back(link);
  }
  for (const LinkId link : absent) round_.leave(link);
}

// Something changed: checks whether the round has ended, and starts what follows.
void Job::settle(TimePoint now, coordinator::Actions& actions) {
  if (over()) return;
  const bool nobody_runs = round_.count(Member::State::running) == 0;
  if (round_.phase() == Round::Phase::sealed && nobody_runs) {
    end({.exit_code = 0, .reason = "every worker finished"}, now, actions);
    return;
  }
  if (round_.phase() != Round::Phase::draining) return;
  const bool somebody_is_missing =
      round_.count(Member::State::drained) < round_.seated() || round_.away() > 0;
  // The next round also waits until it is certain that no standby can lead in this one.
  if (!somebody_is_missing && !votes_.is_settled()) recall_votes(actions);
  if (somebody_is_missing || !votes_.is_settled()) {
    replace_standby(actions);
    if (!status_due_) status_due_ = now + options_.status_interval;
    return;
  }
  if (own_leave_ && transfer_leadership(now, actions)) return;
  const auto verdict = judge(now);
  if (verdict.restart) {
    begin_again(now, verdict, actions);
    return;
  }
  link::Finish finish = finish_of(round_end_);
  if (finish.root && terms_.restarts.may_restart()) {
    finish.reason += "; not restarted: " + verdict.reason;
  }
  end(std::move(finish), now, actions);
}

// All nodes of the broken round have drained: decides whether another round follows.
RestartPolicy::Verdict Job::judge(TimePoint now) {
  if (round_end_.stop) return {.restart = false, .pause = {}, .reason = round_end_.why_no_other};
  const Failures::Entry* root = round_end_.failures.root();
  if (root == nullptr) return {.restart = true, .pause = {}, .reason = "the next round follows"};
  auto verdict = policy_.judge(now, {.root = root->failure,
                                     .life = root->at - sealed_at_,
                                     .lost = root->lost,
                                     .reached = round_end_.reached});
  if (!root->lost || !verdict.restart) return verdict;
  // A replacement may take the seat. A job that must not be restarted has nothing to wait for.
  verdict.restart =
      terms_.elastic() || terms_.restarts.may_restart() || round_.count(Member::State::waiting) > 0;
  return verdict;
}

// All nodes of the old round have drained: they wait for the next one.
void Job::begin_again(TimePoint now, const RestartPolicy::Verdict& verdict,
                      coordinator::Actions& actions) {
  const Failures::Entry* root = round_end_.failures.root();
  why_again_ = fmt::format("{}: {}", root ? root->what : round_end_.reason, verdict.reason);
  actions.emplace_back(coordinator::Note{
      .line = why_again_, .root = root ? std::optional(root->failure) : std::nullopt});
  history_.closed(now, round_end_, verdict.counts);
  if (verdict.failing_host) leave_out(now, *verdict.failing_host, actions);
  settle_time(now);
  round_end_ = {};
  forget_standby();
  if (steps_ > 0) ++steps_;
  since_ = now;
  round_.gather_again(now);
  // let_go() kept these nodes until they gave up their votes. The votes of the others were enough.
  std::vector<LinkId> leaving;
  for (const auto& [link, member] : round_.members()) {
    if (member->leaving) leaving.push_back(link);
  }
  for (const LinkId link : leaving) let_go(link, actions);
  status_due_ = now + options_.status_interval;
  if (verdict.pause > Duration{}) {
    pause_until_ = now + verdict.pause;
    tell_status(now, actions);
    return;
  }
  meet_again(now, actions);
}

void Job::meet_again(TimePoint now, coordinator::Actions& actions) {
  pause_until_.reset();
  meets_again_ = waits_for_links();
  if (meets_again_) return;
  // The nodes of the last round need no last call: they are already here.
  if (terms_.elastic() && round_.size() >= static_cast<std::size_t>(terms_.nodes_min)) {
    seal(now, actions);
  } else {
    consider_sealing(now, actions);
  }
}

void Job::end(link::Finish finish, TimePoint now, coordinator::Actions& actions) {
  assert(!over() && votes_.is_settled());
  if (steps_ > 0) ++steps_;  // Nothing is kept of a job that never started.
  history_.closed(now, round_end_, false);
  since_ = now;
  close_time(now);
  finish_ = std::move(finish);
  finish_->time = time_.told(now);
  status_due_.reset();
  pause_until_.reset();
  last_call_.cancel();
  forget_standby();
  // Ten thousand nodes receive it at once, in brief. The master's own agent gets all of it, by a
  // call.
  const link::Finish for_others = link::brief(*finish_);
  for (const auto& [link, member] : round_.members()) {
    if (!member->connected) {
      leases_.renew(link, now);  // It has this long to reconnect and ask.
      continue;
    }
    actions.emplace_back(coordinator::Say{link, member->local ? *finish_ : for_others});
  }
}

void Job::advance(TimePoint now, coordinator::Actions& actions) {
  const TimeKept kept{*this, now};
  look_at_lead(now, actions);
  if (is_deposed_) return;
  if (transfer_until_ && *transfer_until_ <= now) {
    if (standby_->port != 0) {
      // It is not known whether the standby leads, so this coordinator must not decide anything.
      step_aside(now, {standby_->address, standby_->port}, actions);
      return;
    }
    abort_transfer();
    settle(now, actions);
  }
  give_up_silent(now, actions);
  if (pause_until_ && *pause_until_ <= now) meet_again(now, actions);
  if (last_call_.over_at() && *last_call_.over_at() <= now) {
    consider_sealing(now, actions);
    consider_growing(now, {}, actions);
  }
  if (status_due_ && *status_due_ <= now) tell_status(now, actions);
  look_at_record(now);
}

std::optional<TimePoint> Job::next_deadline() const {
  std::optional<TimePoint> soonest = leases_.next_expiry();
  // No round is sealed while a link is broken: it waits for its return or the end of its lease.
  const bool may_seal = round_.phase() != Round::Phase::gathering || !waits_for_links();
  const auto last_call = may_seal ? last_call_.over_at() : std::nullopt;
  for (const auto& deadline :
       {status_due_, pause_until_, last_call, lead_look_due_, record_due_, transfer_until_}) {
    if (deadline && (!soonest || *deadline < *soonest)) soonest = deadline;
  }
  return soonest;
}

}  // namespace cpprun
