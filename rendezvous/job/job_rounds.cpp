// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <csignal>
#include <utility>

#include "rendezvous/job/bounds.h"
#include "rendezvous/job/job_texts.h"

namespace cpprun {

namespace {

using coordinator::NodeChange;
using State = Member::State;

// If the job already has a leader, that leader must find this node before this node starts the job
// a second time.
Duration search_of(const JobTerms& terms, const JobOptions& options) {
  return options.standby && terms.elastic() ? Duration{bounds::lead_search} : Duration{};
}

// Converts a time of the agent's clock to ours. Returns now if the agent sent none, or if it would
// lie in the future.
TimePoint when(TimePoint now, const Member& member, link::AgentTime moment) {
  if (moment == link::AgentTime{}) return now;
  // The agent in the coordinator's own process shares its clock.
  const auto known = member.local ? TimePoint{moment} : member.clock.by_coordinator(moment);
  return std::min(known.value_or(now), now);
}

}  // namespace

JobRounds::JobRounds(JobTerms terms, JobOptions options)
    : terms_(std::move(terms)),
      options_(options),
      leadership_(terms_, options_),
      last_call_({.min = static_cast<std::size_t>(terms_.nodes_min),
                  .max = static_cast<std::size_t>(terms_.nodes_max)},
                 options.last_call, search_of(terms_, options)),
      policy_(terms_.restarts, std::move(options.restarts_before)) {}

JobRounds::JobRounds(TimePoint now, const JobRecord& record, JobOptions options, const Round& round,
                     bool has_store)
    : JobRounds(terms_of(record.nodes.front().join), std::move(options)) {
  sealed_at_ = record.sealed_at;
  since_ = record.since;
  history_ = RoundHistory{record.history};
  time_ = TimeAccounting{record.time};
  round_end_ = record.round_end;
  finish_ = record.finish;
  pause_until_ = record.pause_until;
  why_again_ = record.why_again;
  steps_ = 1;
  has_lost_its_store_ = !has_store;
  for (const RestartedWorker& each : record.restarted_workers) {
    restarted_workers_.emplace(each.rank, each);
  }
  if (record.alive) time_.had_no_coordinator(std::min(std::max(*record.alive, sealed_at_), now));
  next_round_is_due_ = !over() && round.phase() == Round::Phase::gathering && !pause_until_;
  if (over()) return;
  if (round.phase() != Round::Phase::sealed) status_due_ = now + options_.status_interval;
  // Nodes with a seat trained on meanwhile; no coordinator was there to see requests to the store.
  if (round.phase() == Round::Phase::sealed) {
    time_.has_worked(now);
    time_.trains();
  }
  place_time(now, round);
}

void JobRounds::keep(JobRecord& record) const {
  record.sealed_at = sealed_at_;
  record.since = since_;
  record.restarts = policy_.state();
  record.round_end = round_end_;
  record.pause_until = pause_until_;
  record.why_again = why_again_;
  record.votes_needed = leadership_.votes_needed();
  record.takeover_window = options_.takeover_window;
  record.finish = finish_;
  record.history = history_.kept();
  record.time = time_.kept();
  for (const auto& [rank, worker] : restarted_workers_) record.restarted_workers.push_back(worker);
}

std::string JobRounds::waits_for(TimePoint now, const Round& round) const {
  if (over() || round.phase() == Round::Phase::sealed) return {};
  Waits waits{.reason = pause_until_ ? why_again_ : round_end_.reason};
  if (pause_until_) waits.pause = *pause_until_ - now;
  if (const auto over_at = last_call_.over_at()) {
    waits.last_call = std::max(*over_at - now, Duration{});
  }
  if (round.local_member() == nullptr) waits.master = master_waits_;
  return status_of(round, terms_, waits);
}

void JobRounds::failed(TimePoint now, LinkId link, link::Failed failed, JobNodes& nodes,
                       Actions& actions) {
  const Round& round = nodes.round();
  const Member& member = *round.find(link);
  if (round.phase() == Round::Phase::gathering) return;
  // A failure never has status 0. Host and ranks come from our records, not from the node.
  if (failed.failure.status == link::ExitStatus{}) failed.failure.status.value = 1;
  failed.failure.host = member.join.host;
  failed.failure.group_rank = member.group_rank.value_or(GroupRank{});
  failed.failure.local_rank = LocalRank{failed.failure.rank.value - member.ranks.base.value};
  if (failed.failure.cause == "stray_interface") {
    failed.failure.message = with_host_of_address(std::move(failed.failure.message), round);
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
  if (failed.late) break_for_stopped_node(now, link, nodes, actions);
  if (restarts_alone(now, link, failed, at, round, actions)) return;
  // Without its store, any failure is a consequence of that.
  if (has_lost_its_store_ && round.phase() == Round::Phase::sealed) {
    break_for_lost_store(now, nodes, actions);
  }
  // What follows from a requested end is no failure. By the node's clock it may seem earlier than
  // the request.
  const bool follows =
      at > round_end_.at || failed.failure.consequence || failed.late || has_lost_its_store_;
  if (round.phase() == Round::Phase::draining && round_end_.polite() && follows) return;
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
  if (round.phase() == Round::Phase::sealed) break_round(now, what, nodes, actions);
}

// Whether this worker alone is started again (RestartScope::worker). If the restart policy allows
// no restart, or another node may have to take over, the round breaks as for any failure.
bool JobRounds::restarts_alone(TimePoint now, LinkId link, const link::Failed& failed, TimePoint at,
                               const Round& round, Actions& actions) {
  if (terms_.restarts.scope == RestartScope::job) return false;
  const link::Failure& failure = failed.failure;
  const auto known = restarted_workers_.find(failure.rank);
  const int attempt = known == restarted_workers_.end() ? 0 : known->second.attempt;
  // Repeated on a newer link: the reply may have been lost with the older one.
  const bool is_repeated = failed.attempt >= 0 && failed.attempt < attempt;
  const bool runs = round.phase() == Round::Phase::sealed;
  if (!is_repeated) {
    // No such restart is known here: another one must not get its number.
    const bool is_known = failed.attempt == attempt;
    if (!runs || !is_known || has_lost_its_store_ || has_process_group_) return false;
    RestartPolicy after = policy_;
    const auto verdict = after.judge(now, {.root = failure, .life = at - started_at(failure.rank)});
    if (!verdict.restart || verdict.failing_host) return false;
    policy_ = std::move(after);
    restarted_workers_[failure.rank] = {.rank = failure.rank,
                                        .attempt = attempt + 1,
                                        .restart_count = policy_.restarts_used(),
                                        .due = now + verdict.pause,
                                        .reason = verdict.reason};
    history_.worker_restarted(failure.cause);
    record_changed();
    if (const auto standby = leadership_.standby()) {
      actions.emplace_back(coordinator::ShowRecord{terms_.id, *standby});
    }
    // A node reports the restarts of its own workers.
    if (!round.find(link)->local) {
      actions.emplace_back(
          coordinator::Note{fmt::format("rank {} on {} failed and is restarted alone: {}",
                                        failure.rank.value, failure.host, verdict.reason)});
    }
  }
  if (!runs) return true;
  const RestartedWorker& worker = restarted_workers_.at(failure.rank);
  actions.emplace_back(
      coordinator::Say{link, link::RestartWorker{.round = round.number(),
                                                 .rank = worker.rank,
                                                 .attempt = worker.attempt,
                                                 .restart_count = worker.restart_count,
                                                 .pause = std::max(worker.due - now, Duration{}),
                                                 .reason = worker.reason}});
  return true;
}

// With RestartScope::worker, a node that cannot end a failed worker stops all of its workers. The
// restart of that worker was counted already.
void JobRounds::break_for_stopped_node(TimePoint now, LinkId link, JobNodes& nodes,
                                       Actions& actions) {
  const Round& round = nodes.round();
  const Member& member = *round.find(link);
  const bool is_alone = terms_.restarts.scope == RestartScope::worker;
  if (!is_alone || round.phase() != Round::Phase::sealed || member.state != State::running) return;
  break_politely(now, fmt::format("{} has stopped its workers", name_of(member)), nodes, actions);
}

TimePoint JobRounds::started_at(Rank rank) const {
  const auto restarted = restarted_workers_.find(rank);
  return restarted == restarted_workers_.end() ? sealed_at_ : restarted->second.due;
}

void JobRounds::succeeded(TimePoint now, LinkId link, JobNodes& nodes, Actions& actions) {
  Round& round = nodes.round();
  leadership_.released(link);
  if (round.find(link)->state != State::running) return;
  round.set_state(link, State::succeeded, now);
  if (!record_due_) record_due_ = now + bounds::done_record_delay(round.size());
  update_phase(now, nodes, actions);
}

void JobRounds::drained(TimePoint now, LinkId link, const link::Drained& drained, JobNodes& nodes,
                        Actions& actions) {
  Round& round = nodes.round();
  if (drained.asked) leadership_.released(link);
  break_for_stopped_node(now, link, nodes, actions);
  // In any other phase the message is late: no node was asked for it.
  if (round.phase() != Round::Phase::draining) return;
  const State state = round.find(link)->state;
  if (state == State::waiting) return;
  if (state != State::drained) time_.unsaved(drained.unsaved);
  round_end_.come_to(drained.reached);
  round.set_state(link, State::drained, now);
  let_go(link, nodes, actions);
  update_phase(now, nodes, actions);
}

void JobRounds::leave(TimePoint now, LinkId link, const link::Leave& leave, JobNodes& nodes,
                      Actions& actions) {
  Round& round = nodes.round();
  const Member member = *round.find(link);
  if (member.leaving) return;  // Already known; repeated on a newer link.
  const std::string says = fmt::format("{} leaves: {}", name_of(member), leave.reason);
  actions.emplace_back(change_of(member, NodeChange::Kind::left, leave.reason));
  const bool has_seat = member.state != State::waiting;
  leadership_.released(link);  // it exits, and asks for no other seat
  // Between two rounds all nodes wait, and a job of fixed size cannot continue without this one.
  const bool is_needed = round.phase() == Round::Phase::gathering && member.group_rank &&
                         !goes_on_without(member, round);
  if (!has_seat && !member.local && !is_needed) {
    // None of its processes is alive, and the job does not need it.
    actions.emplace_back(coordinator::Note{says});
    round.leave(link);
    consider_sealing(now, nodes, actions);
    return;
  }
  if (round.phase() == Round::Phase::gathering) {
    // A job that has not started yet cannot start without its master.
    const std::string who =
        member.local ? fmt::format("the master on {}", member.join.host) : name_of(member);
    end({.exit_code = leave.signal == 0 ? 1 : 128 + leave.signal,
         .reason = fmt::format("{} left: {}", who, leave.reason)},
        now, nodes, actions);
    return;
  }
  if (goes_on_without(member, round)) {
    round_end_.change = true;
    round.mark_leaving(link);
    // It may have drained already, and does not report that again.
    let_go(link, nodes, actions);
  } else if (leadership_.may_transfer(member, leave, round, round_end_)) {
    leadership_.request_transfer(leave);
    round_end_.change = true;
    round.mark_leaving(link);
  } else if (!round_end_.stop) {
    round_end_.stop = leave;
    round_end_.why_no_other = says;
    record_changed();
  }
  if (round.phase() == Round::Phase::sealed) {
    break_round(now, says, nodes, actions);
  } else if (round_end_.stop) {
    leadership_.recall_votes(round, round_end_, actions);
  }
  round_end_.polite_since(when(now, member, leave.asked), says);
  update_phase(now, nodes, actions);
}

void JobRounds::stands(TimePoint now, LinkId link, const link::Stands& stands, JobNodes& nodes,
                       Actions& actions) {
  const bool is_successor = leadership_.transfer_until().has_value();
  if (!leadership_.stands(now, link, stands, nodes.round(), round_end_, actions)) return;
  if (is_successor) {
    update_phase(now, nodes, actions);
  } else {
    check_lease(now, nodes, actions);
  }
}

void JobRounds::heard(TimePoint now, LinkId link, const link::Heartbeat& beat, JobNodes& nodes,
                      Actions& actions) {
  if (leadership_.is_declined(link, beat)) {
    abort_transfer();
    update_phase(now, nodes, actions);
  }
  leadership_.heard(link, std::min(TimePoint{beat.moment}, now));
}

void JobRounds::joined(TimePoint now, LinkId link, JobNodes& nodes, Actions& actions) {
  if (!since_) since_ = now;
  actions.emplace_back(change_of(*nodes.round().find(link), NodeChange::Kind::joined));
  switch (nodes.round().phase()) {
    case Round::Phase::gathering:
      if (!status_due_) status_due_ = now + options_.status_interval;
      consider_sealing(now, nodes, actions);
      break;
    case Round::Phase::sealed:
      consider_growing(now, link, nodes, actions);
      break;
    case Round::Phase::draining:
      // It is present when the round gathers again. That may be now, if it was in this round, its
      // last message was lost with its link, and no other node was waited for.
      update_phase(now, nodes, actions);
      break;
  }
  // The round may just have been sealed with it; then there is no standby yet.
  leadership_.announce(now, link, nodes.round(), round_end_, actions);
}

void JobRounds::resumed(TimePoint now, LinkId old_link, LinkId link, const link::Join& join,
                        JobNodes& nodes, Actions& actions) {
  Round& round = nodes.round();
  leadership_.moved(old_link, link);
  leadership_.announce(now, link, round, round_end_, actions);
  nodes.reject_claimant(link, terms_, actions);
  // It will report that again in a moment, but by then it may have been told to restart.
  if (has_lost_its_store_ && join.done && !over() && round.phase() == Round::Phase::sealed &&
      round.find(link)->state == State::running) {
    round.set_state(link, State::succeeded, now);
  }
  if (finish_) {
    actions.emplace_back(coordinator::Say{link, link::brief(*finish_)});
  } else if (round.phase() == Round::Phase::draining && join.after == round.number()) {
    actions.emplace_back(
        coordinator::Say{link, leadership_.drain(*round.find(link), round, round_end_)});
  }
}

void JobRounds::resumed_in_round(TimePoint now, LinkId link, const link::Join& join,
                                 JobNodes& nodes, Actions& actions) {
  if (!join.idle || join.done) time_.kept_a_seat();
  leadership_.show_record_again(link, nodes.round(), round_end_, actions);
  let_go(link, nodes, actions);
  // It may have been the last node waited for.
  update_phase(now, nodes, actions);
  consider_lost_store(now, nodes, actions);
  consider_sealing(now, nodes, actions);
}

void JobRounds::resumed_with_seat(TimePoint now, LinkId link, link::Sealed seat, JobNodes& nodes,
                                  Actions& actions) {
  const Round& round = nodes.round();
  say_seat(link, std::move(seat), round, actions);
  leadership_.show_record_again(link, round, round_end_, actions);
  // After its seat: before that, it ignores a standby.
  leadership_.announce(now, link, round, round_end_, actions);
  let_go(link, nodes, actions);
}

void JobRounds::resumed_without_seat(TimePoint now, LinkId link, const link::Join& join,
                                     JobNodes& nodes, Actions& actions) {
  // It reconnected to this coordinator, and voted for no standby.
  if (join.vote == RoundNumber{}) leadership_.released(link);
  nodes.round().set_state(link, State::drained, now);
  let_go(link, nodes, actions);
  update_phase(now, nodes, actions);
}

void JobRounds::lost(TimePoint now, const Member& member, TimePoint at, JobNodes& nodes,
                     Actions& actions) {
  const Round::Phase phase = nodes.round().phase();
  const bool had_workers = phase != Round::Phase::gathering && member.state == State::running;
  // A node that leaves, or whose job was being stopped, is gone as requested.
  const bool follows = member.leaving || (round_end_.stop && at >= round_end_.at);
  if (!had_workers || follows) return;
  const std::string what = fmt::format("{} is lost", name_of(member));
  const auto wall =
      std::chrono::duration_cast<WallTime::duration>(at.time_since_epoch() + options_.wall_offset);
  const bool has_wall = options_.wall_offset != Duration{};
  round_end_.failures.add({.failure = failure_of_lost(member, nodes.round().leases().length(),
                                                      has_wall ? WallTime{wall} : WallTime{}),
                           .at = at,
                           .lost = true,
                           .what = what});
  if (phase == Round::Phase::sealed) break_round(now, what, nodes, actions);
}

void JobRounds::let_go(LinkId link, JobNodes& nodes, Actions& actions) {
  Round& round = nodes.round();
  const Member* member = round.find(link);
  if (member == nullptr || !member->leaving || member->has_workers()) return;
  if (member->local) return;  // It goes when it is known which node leads instead.
  if (!member->dismissed.empty()) {
    if (member->connected && leadership_.has_vote(link) && !leadership_.is_decided()) {
      actions.emplace_back(coordinator::Say{link, leadership_.drain(*member, round, round_end_)});
      return;  // called again when the node has given up its vote
    }
    actions.emplace_back(change_of(*member, NodeChange::Kind::left, member->dismissed));
    // A node whose link is broken is informed when it reconnects.
    if (member->connected) {
      actions.emplace_back(coordinator::Say{link, link::Dismissed{member->dismissed}});
      actions.emplace_back(coordinator::HangUp{link, member->dismissed});
    }
  }
  round.leave(link);
  // The next coordinator need not wait for it: it does not come back.
  record_changed();
}

void JobRounds::update_phase(TimePoint now, JobNodes& nodes, Actions& actions) {
  if (over()) return;
  const Round& round = nodes.round();
  const bool no_node_runs = round.count(State::running) == 0;
  if (round.phase() == Round::Phase::sealed && no_node_runs) {
    end({.exit_code = 0, .reason = "every worker finished"}, now, nodes, actions);
    return;
  }
  if (round.phase() != Round::Phase::draining) return;
  const bool nodes_are_missing = round.count(State::drained) < round.seated() || round.away() > 0;
  // The next round also waits until it is certain that no standby can lead in this one.
  if (!nodes_are_missing && !leadership_.is_decided()) {
    leadership_.recall_votes(round, round_end_, actions);
  }
  if (nodes_are_missing || !leadership_.is_decided()) {
    leadership_.replace_standby(round, round_end_, actions);
    if (!status_due_) status_due_ = now + options_.status_interval;
    return;
  }
  if (leadership_.is_transfer_requested() && transfer_leadership(now, round, actions)) return;
  const auto verdict = judge(now, round);
  if (verdict.restart) {
    prepare_next_round(now, verdict, nodes, actions);
    return;
  }
  link::Finish finish = finish_of(round_end_);
  if (finish.root && terms_.restarts.may_restart()) {
    finish.reason += "; not restarted: " + verdict.reason;
  }
  end(std::move(finish), now, nodes, actions);
}

void JobRounds::consider_sealing(TimePoint now, JobNodes& nodes, Actions& actions) {
  if (over() || nodes.round().phase() != Round::Phase::gathering || pause_until_) return;
  if (nodes.waits_for_links()) return;
  if (next_round_is_due_) return start_next_round(now, nodes, actions);
  if (last_call_.may_seal(now, nodes.round().size())) seal(now, nodes, actions);
}

// Sealed: a node without a seat has joined. If there may be a seat for it, the round is broken
// politely, once for all nodes that join until the last call ends.
void JobRounds::consider_growing(TimePoint now, std::optional<LinkId> newcomer, JobNodes& nodes,
                                 Actions& actions) {
  const Round& round = nodes.round();
  if (over() || round.phase() != Round::Phase::sealed) return;
  const std::size_t spares = round.count(State::waiting);
  const bool was_called = last_call_.over_at().has_value();
  // A node that has finished its work would have to repeat it.
  const bool too_late = round.count(State::succeeded) > 0;
  if (too_late) last_call_.cancel();
  const bool grows = !too_late && last_call_.may_grow(now, round.seated(), spares);
  // Earlier spares know this already: a thousand of them must not get a message for each newcomer.
  if (!last_call_.over_at()) send_spares(was_called ? std::nullopt : newcomer, round, actions);
  if (!grows) return;
  break_politely(now, fmt::format("{} more {} joined", spares, spares == 1 ? "node" : "nodes"),
                 nodes, actions);
}

void JobRounds::send_spares(std::optional<LinkId> only, const Round& round,
                            Actions& actions) const {
  const bool is_full = round.seated() >= static_cast<std::size_t>(terms_.nodes_max);
  const link::Waiting waiting{
      .reason = is_full
                    ? fmt::format("all {} places are taken; this node is a spare", terms_.nodes_max)
                    : "some nodes have finished their work; this node is a spare",
      .spare = true};
  if (only) {
    actions.emplace_back(coordinator::Say{*only, waiting});
    return;
  }
  for (const auto& [link, member] : round.members()) {
    if (member->state != State::waiting || !member->connected) continue;
    actions.emplace_back(coordinator::Say{link, waiting});
  }
}

void JobRounds::seal(TimePoint now, JobNodes& nodes, Actions& actions) {
  Round& round = nodes.round();
  ++steps_;
  record_due_.reset();
  has_lost_its_store_ = false;
  restarted_workers_.clear();
  has_process_group_ = false;
  last_call_.cancel();
  status_due_.reset();
  sealed_at_ = now;
  since_ = now;
  time_.sealed(now);
  auto seats = round.seal(terms_.nodes_max, now);
  history_.sealed(now, round.number(), policy_.restarts_used());
  actions.emplace_back(
      coordinator::ResetStore{terms_.id, fmt::format("round {} begins", round.number().value)});
  round.tell_neighbours(seats);
  for (auto& [link, sealed] : seats) say_seat(link, std::move(sealed), round, actions);
  send_spares({}, round, actions);
  leadership_.begin(round, actions);
}

void JobRounds::say_seat(LinkId link, link::Sealed sealed, const Round& round,
                         Actions& actions) const {
  sealed.restart_count = policy_.restarts_used();
  sealed.store_port = options_.store_port;
  sealed.restarts_workers = terms_.restarts.scope == RestartScope::worker;
  const auto* before = history_.root_of(RoundNumber{sealed.round.value - 1});
  // The agent in this process has received it in full, with `round_over`.
  if (before != nullptr && !round.find(link)->local) {
    sealed.failed_before = *before;
    sealed = link::brief(std::move(sealed));
  }
  actions.emplace_back(coordinator::Say{link, std::move(sealed)});
}

void JobRounds::break_politely(TimePoint now, const std::string& reason, JobNodes& nodes,
                               Actions& actions, bool is_ordered) {
  round_end_.change = true;
  if (is_ordered) round_end_.ordered = true;
  break_round(now, reason, nodes, actions);
}

void JobRounds::break_round(TimePoint now, const std::string& reason, JobNodes& nodes,
                            Actions& actions) {
  begin_draining(now, reason, nodes.round());
  // So that the standby counts the failure if this coordinator is lost before the round has
  // drained.
  const auto standby = leadership_.standby();
  if (!leadership_.replace_standby(nodes.round(), round_end_, actions) && standby) {
    actions.emplace_back(coordinator::ShowRecord{terms_.id, *standby});
  }
  leadership_.send_drain(nodes.round(), round_end_, actions);
}

void JobRounds::begin_draining(TimePoint now, const std::string& reason, Round& round) {
  assert(!over());
  ++steps_;
  round_end_.reason = reason;
  round_end_.at = now;
  since_ = now;
  last_call_.cancel();
  time_.broken(now);
  round.break_up();
  // A node that has finished its part and cannot be reached has nothing to drain.
  std::vector<LinkId> absent;
  for (const auto& [link, member] : round.members()) {
    if (member->state != State::succeeded || member->connected) continue;
    if (!round.leases().watches(link)) absent.push_back(link);
  }
  for (const LinkId link : absent) round.leave(link);
}

// All nodes of the broken round have drained: decides whether another round follows.
RestartPolicy::Verdict JobRounds::judge(TimePoint now, const Round& round) {
  if (round_end_.stop) return {.restart = false, .pause = {}, .reason = round_end_.why_no_other};
  const Failures::Entry* root = round_end_.failures.root();
  if (root == nullptr) return {.restart = true, .pause = {}, .reason = "the next round follows"};
  auto verdict = policy_.judge(now, {.root = root->failure,
                                     .life = root->at - started_at(root->failure.rank),
                                     .lost = root->lost,
                                     .reached = round_end_.reached});
  if (!root->lost || !verdict.restart) return verdict;
  // A replacement may take the seat. A job that must not be restarted has nothing to wait for.
  verdict.restart =
      terms_.elastic() || terms_.restarts.may_restart() || round.count(State::waiting) > 0;
  return verdict;
}

// Only a preview: the new leader decides what follows, and counts the restart.
bool JobRounds::would_restart(TimePoint now, const Round& round) {
  const RestartPolicy before = policy_;
  const bool restarts = judge(now, round).restart;
  policy_ = before;
  return restarts;
}

// All nodes of the old round have drained: they wait for the next one.
void JobRounds::prepare_next_round(TimePoint now, const RestartPolicy::Verdict& verdict,
                                   JobNodes& nodes, Actions& actions) {
  Round& round = nodes.round();
  const Failures::Entry* root = round_end_.failures.root();
  why_again_ = fmt::format("{}: {}", root ? root->what : round_end_.reason, verdict.reason);
  actions.emplace_back(coordinator::Note{
      .line = why_again_, .root = root ? std::optional(root->failure) : std::nullopt});
  history_.closed(now, round_end_, verdict.counts);
  if (verdict.failing_host) exclude_failing_host(now, *verdict.failing_host, nodes, actions);
  time_.round_decided(now, round_end_, has_lost_its_store_);
  round_end_ = {};
  leadership_.end();
  record_changed();
  since_ = now;
  round.gather_again(now);
  // let_go() kept these nodes until they gave up their votes. The votes of the others were enough.
  std::vector<LinkId> leaving;
  for (const auto& [link, member] : round.members()) {
    if (member->leaving) leaving.push_back(link);
  }
  for (const LinkId link : leaving) let_go(link, nodes, actions);
  status_due_ = now + options_.status_interval;
  if (verdict.pause > Duration{}) {
    pause_until_ = now + verdict.pause;
    send_status(now, round, actions);
    return;
  }
  start_next_round(now, nodes, actions);
}

void JobRounds::start_next_round(TimePoint now, JobNodes& nodes, Actions& actions) {
  pause_until_.reset();
  next_round_is_due_ = nodes.waits_for_links();
  if (next_round_is_due_) return;
  // The nodes of the last round need no last call: they are already here.
  if (terms_.elastic() && nodes.round().size() >= static_cast<std::size_t>(terms_.nodes_min)) {
    seal(now, nodes, actions);
  } else {
    consider_sealing(now, nodes, actions);
  }
}

// Excludes a host on which rounds repeatedly fail first, if the job can do without it. To be called
// when no worker of a round is alive.
void JobRounds::exclude_failing_host(TimePoint now, const std::string& host, JobNodes& nodes,
                                     Actions& actions) {
  const HostLimit& limit = terms_.restarts.host_limit;
  const std::string in_time =
      limit.window > Duration{} ? fmt::format(" within {} s", in_seconds(limit.window)) : "";
  // Of rounds, or of workers that were restarted alone.
  const std::string why =
      fmt::format("{} {} on {}{} (--max-host-failures={})", limit.failures,
                  limit.failures == 1 ? "failure" : "failures", host, in_time, limit.failures);
  const auto links = nodes.nodes_of_host(host);
  const std::size_t staying = nodes.round().staying();
  std::optional<std::string> objection;
  if (!links.empty()) {
    objection = objection_to_evict(links, nodes);
  } else if (staying < static_cast<std::size_t>(terms_.nodes_min)) {
    objection = fmt::format("only {} left, but the job needs at least {}; start another node",
                            node_count_text(staying), terms_.nodes_min);
  }
  if (!objection) {
    if (const auto done = nodes.exclusions().exclude(now, host, {}, why); !done) {
      objection = done.error().reason;
    }
  }
  if (objection) {
    actions.emplace_back(
        coordinator::Note{.line = fmt::format("{}; cannot exclude the host: {}", why, *objection),
                          .level = LogLevel::warning});
    return;
  }
  actions.emplace_back(
      coordinator::Note{.line = fmt::format("{} is excluded until the job is over: {}", host, why),
                        .level = LogLevel::warning});
  for (const LinkId link : nodes.evict(links, why)) let_go(link, nodes, actions);
}

std::optional<std::string> JobRounds::objection_to_evict(const std::vector<LinkId>& links,
                                                         const JobNodes& nodes) const {
  if (round_end_.stop) {
    return fmt::format("job \"{}\" is already stopping: {}", terms_.id, round_end_.why_no_other);
  }
  return nodes.objection_to_evict(links, terms_.nodes_min, leadership_.standby_place().has_value());
}

void JobRounds::consider_lost_store(TimePoint now, JobNodes& nodes, Actions& actions) {
  const Round& round = nodes.round();
  if (!has_lost_its_store_ || over() || round.phase() != Round::Phase::sealed) return;
  if (round.away() > 0) return;
  if (round.count(State::succeeded) > 0 && !terms_.store_is_local) return;
  break_for_lost_store(now, nodes, actions);
}

void JobRounds::break_for_lost_store(TimePoint now, JobNodes& nodes, Actions& actions) {
  break_politely(now, "cpprund was restarted, and the store of the round was lost", nodes, actions);
}

void JobRounds::stop(TimePoint now, const std::string& why, JobNodes& nodes, Actions& actions) {
  round_end_.stop = link::Leave{.signal = SIGTERM, .reason = why};
  round_end_.why_no_other = why;
  if (nodes.round().phase() == Round::Phase::sealed) {
    break_round(now, why, nodes, actions);
  } else {
    if (round_end_.failures.empty()) round_end_.reason = why;
    leadership_.recall_votes(nodes.round(), round_end_, actions);
  }
  round_end_.polite_since(now, why);
}

void JobRounds::end(link::Finish finish, TimePoint now, JobNodes& nodes, Actions& actions) {
  Round& round = nodes.round();
  assert(!over() && leadership_.is_decided());
  record_changed();  // Nothing is kept of a job that never started.
  history_.closed(now, round_end_, false);
  since_ = now;
  close_time(now, round);
  finish_ = std::move(finish);
  finish_->time = time_.told(now);
  if (terms_.restarts.scope == RestartScope::worker) finish_->restarts = policy_.restarts_used();
  status_due_.reset();
  pause_until_.reset();
  last_call_.cancel();
  leadership_.end();
  // Ten thousand nodes receive it at once, in brief. The master's own agent gets all of it, by a
  // call.
  const link::Finish for_others = link::brief(*finish_);
  for (const auto& [link, member] : round.members()) {
    if (!member->connected) {
      round.leases().renew(link, now);  // It has this long to reconnect and ask.
      continue;
    }
    actions.emplace_back(coordinator::Say{link, member->local ? *finish_ : for_others});
  }
}

// Returns false if the job ends, as without a standby.
bool JobRounds::transfer_leadership(TimePoint now, const Round& round, Actions& actions) {
  if (leadership_.transfer_until()) return true;
  const bool are_enough = round.staying() >= static_cast<std::size_t>(terms_.nodes_min);
  if (are_enough && would_restart(now, round) && leadership_.offer(now, round, actions)) {
    return true;
  }
  abort_transfer();
  return false;
}

void JobRounds::abort_transfer() {
  link::Leave leave = leadership_.abort_transfer();
  if (round_end_.stop) return;
  round_end_.why_no_other = "the master leaves: " + leave.reason;
  round_end_.stop = std::move(leave);
}

bool JobRounds::step_aside(TimePoint now, const link::Led& led, JobNodes& nodes, Actions& actions) {
  if (leadership_.is_deposed()) return true;
  if ((steps_ > 0 && !leadership_.transfer_until()) || over()) return false;
  Round& round = nodes.round();
  close_time(now, round);
  leadership_.follow(led);
  stop_deciding(now, round);
  for (const auto& [link, member] : round.members()) {
    if (member->connected && member->join.can_lead)
      actions.emplace_back(coordinator::Say{link, led});
    if (member->connected && !member->local) {
      actions.emplace_back(coordinator::HangUp{link, "the job has another leader"});
    }
  }
  return true;
}

void JobRounds::check_lease(TimePoint now, JobNodes& nodes, Actions& actions) {
  if (leadership_.is_deposed() || over()) return;
  if (leadership_.is_lost(now)) depose(now, nodes, actions);
}

// Nodes that have received nothing for this long may follow the standby by now. The workers of this
// node are killed at once, as everywhere when a seat is lost. No message is sent that may be false.
// The round is over in either case: it drains, and the known votes in it are kept (lead_again()).
void JobRounds::depose(TimePoint now, JobNodes& nodes, Actions& actions) {
  Round& round = nodes.round();
  const std::string why = fmt::format(
      "too few of the {} nodes of round {} respond; the standby at {} may be the leader by now",
      round.seated(), round.number().value, leadership_.standby_address());
  actions.emplace_back(coordinator::Note{.line = why, .level = LogLevel::warning});
  for (const auto& [link, member] : round.members()) {
    if (member->local) actions.emplace_back(coordinator::Say{link, link::Refused{why}});
    if (!member->local && member->connected) actions.emplace_back(coordinator::HangUp{link, why});
  }
  if (round.phase() == Round::Phase::sealed) {
    round_end_.change = true;
    begin_draining(now, why, round);
  }
  has_lost_its_store_ = true;
  leadership_.depose();
  stop_deciding(now, round);
}

void JobRounds::stop_deciding(TimePoint now, Round& round) {
  since_ = now;
  status_due_.reset();
  pause_until_.reset();
  record_due_.reset();
  last_call_.cancel();
  for (const auto& [link, member] : round.members()) round.leases().forget(link);
}

void JobRounds::lead_again(TimePoint now, JobNodes& nodes, Actions& actions) {
  Round& round = nodes.round();
  leadership_.lead_again();
  since_ = now;
  ++steps_;
  status_due_ = now + options_.status_interval;
  for (const auto& [link, member] : round.members()) {
    if (!member->local) round.leases().renew(link, now);
  }
  actions.emplace_back(coordinator::Note{
      fmt::format("leadership resumed: no standby can take over round {}; the next round follows",
                  round.number().value)});
  actions.emplace_back(coordinator::Lead{.job = terms_.id, .again = true});
}

void JobRounds::advance_leadership(TimePoint now, JobNodes& nodes, Actions& actions) {
  check_lease(now, nodes, actions);
  const auto transfer_until = leadership_.transfer_until();
  if (leadership_.is_deposed() || !transfer_until || now < *transfer_until) return;
  if (const auto standby = leadership_.standby_place()) {
    // It is not known whether the standby leads, so this coordinator must not decide anything.
    step_aside(now, {standby->address, standby->port}, nodes, actions);
    return;
  }
  abort_transfer();
  update_phase(now, nodes, actions);
}

void JobRounds::advance(TimePoint now, JobNodes& nodes, Actions& actions) {
  if (pause_until_ && *pause_until_ <= now) start_next_round(now, nodes, actions);
  if (last_call_.over_at() && *last_call_.over_at() <= now) {
    consider_sealing(now, nodes, actions);
    consider_growing(now, {}, nodes, actions);
  }
  if (status_due_ && *status_due_ <= now) send_status(now, nodes.round(), actions);
  if (!record_due_ || now < *record_due_) return;
  // The next coordinator must know which nodes have finished their part: they may be gone by then.
  record_due_.reset();
  if (!over() && nodes.round().phase() == Round::Phase::sealed) ++steps_;
}

void JobRounds::send_status(TimePoint now, const Round& round, Actions& actions) {
  status_due_ = now + options_.status_interval;
  const std::string reason = waits_for(now, round);
  const auto audience = round.phase() == Round::Phase::gathering ? State::waiting : State::drained;
  for (const auto& [link, member] : round.members()) {
    if (member->state == audience && member->connected) {
      actions.emplace_back(coordinator::Say{link, link::Waiting{reason}});
    }
  }
}

std::optional<TimePoint> JobRounds::next_deadline(const JobNodes& nodes) const {
  const Round& round = nodes.round();
  std::optional<TimePoint> soonest = round.leases().next_expiry();
  // No round is sealed while a link is broken: it waits for its return or the end of its lease.
  const bool may_seal = round.phase() != Round::Phase::gathering || !nodes.waits_for_links();
  const auto last_call = may_seal ? last_call_.over_at() : std::nullopt;
  for (const auto& deadline : {status_due_, pause_until_, last_call, leadership_.look_due(),
                               record_due_, leadership_.transfer_until()}) {
    if (deadline && (!soonest || *deadline < *soonest)) soonest = deadline;
  }
  return soonest;
}

void JobRounds::store_asked(TimePoint now, const Round& round) {
  if (over() || round.phase() != Round::Phase::sealed || time_.training()) return;
  time_.trains();
  place_time(now, round);
}

void JobRounds::found_process_group(const Round& round, Actions& actions) {
  const bool is_known = terms_.restarts.scope == RestartScope::job || has_process_group_;
  if (is_known || round.phase() != Round::Phase::sealed || over()) return;
  has_process_group_ = true;
  actions.emplace_back(coordinator::Note{
      .line = "--restart-scope=worker is ignored in this round: its workers form a process group, "
              "which a worker that is restarted alone cannot join; a failure restarts all of them"
              "\n  hint: use --restart-scope=worker only for workers that do not call "
              "init_process_group",
      .level = LogLevel::warning});
}

void JobRounds::place_time(TimePoint now, const Round& round) {
  if (over() || leadership_.is_deposed()) return time_.place(now, {});
  const bool has_enough = round.size() >= static_cast<std::size_t>(terms_.nodes_min);
  const Account waits = has_enough ? Account::rendezvous : Account::waiting_for_nodes;
  time_.place(now, round, pause_until_ ? Account::pausing : waits);
}

void JobRounds::close_time(TimePoint now, const Round& round) {
  if (round.phase() == Round::Phase::draining) {
    time_.round_decided(now, round_end_, has_lost_its_store_);
  }
  if (round.phase() == Round::Phase::sealed) time_.has_worked(now);
  time_.place(now, {});
}

std::optional<std::string> JobRounds::check(const JobNodes& nodes) const {
  const Round& round = nodes.round();
  if (auto broken = round.check()) return broken;
  if (over()) {
    return status_due_ || pause_until_
               ? std::optional<std::string>{"the job is over, but a deadline is still set"}
               : std::nullopt;
  }
  if (leadership_.is_deposed()) {
    return next_deadline(nodes) ? std::optional<std::string>{"it is not the leader but still waits"}
                                : std::nullopt;
  }
  const Round::Phase phase = round.phase();
  if (pause_until_ && phase != Round::Phase::gathering) return "it pauses in the middle of a round";
  if (phase == Round::Phase::sealed && round.count(State::running) == 0) {
    return "a sealed round has no running node, but has not ended";
  }
  if (phase == Round::Phase::draining && round.count(State::drained) == round.seated() &&
      round.away() == 0 && leadership_.is_decided() && !leadership_.transfer_until()) {
    return "all nodes have drained, and nothing follows";
  }
  const bool a_node_is_done = round.count(State::succeeded) > 0;
  if (phase == Round::Phase::sealed && has_lost_its_store_ && round.away() == 0 &&
      (terms_.store_is_local || !a_node_is_done)) {
    return "its round continues without a store";
  }
  return round.check_leases();
}

}  // namespace cpprun
