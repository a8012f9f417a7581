// SPDX-License-Identifier: BSD-3-Clause
// The part of Job that outlives its coordinator: the record it leaves, and how the next coordinator
// resumes the job.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/job/job.h"
#include "rendezvous/job/job_texts.h"
#include "rendezvous/job/job_time.h"

namespace cpprun {

namespace {

using State = Member::State;

JobOptions with_restarts_of(const JobRecord& record, JobOptions options) {
  options.restarts_before = record.restarts;
  options.patience = std::max(options.patience, record.patience);
  return options;
}

std::vector<std::pair<LinkId, Member>> members_of(const JobRecord& record, TimePoint now,
                                                  LinkId first) {
  std::vector<std::pair<LinkId, Member>> members;
  for (const JobRecord::Node& each : record.nodes) {
    members.emplace_back(first, Member{.join = each.join,
                                       .peer = each.peer,
                                       .further_peers = each.further_peers,
                                       .leaving = each.leaving,
                                       .dismissed = each.dismissed,
                                       .connected = false,
                                       .broke_at = now,
                                       .state = each.state,
                                       .since = now,
                                       .group_rank = each.group_rank,
                                       .ranks = each.ranks});
    ++first.value;
  }
  return members;
}

}  // namespace

JobRecord Job::record() const {
  JobRecord record{.round = round_.number(),
                   .phase = round_.phase(),
                   .world_size = round_.world_size(),
                   .sealed_at = sealed_at_,
                   .since = since_,
                   .restarts = policy_.state(),
                   .round_end = round_end_,
                   .pause_until = pause_until_,
                   .why_again = why_again_,
                   .votes_needed = standby_ ? votes_.votes_needed() : 0,
                   .patience = options_.patience,
                   .finish = finish_,
                   .history = history_.kept(),
                   .time = time_.kept(),
                   .exclusions = exclusions_.entries(),
                   .evicted_nodes = evicted_nodes_.entries()};
  for (const auto& [link, member] : round_.members()) {
    // A spare asks for a seat again, as if for the first time. So does a claimant.
    const bool has_a_seat = member->state != State::waiting;
    if (member->claims || (!has_a_seat && round_.phase() != Round::Phase::gathering)) continue;
    record.nodes.push_back({.join = member->join,
                            .peer = member->peer,
                            .further_peers = member->further_peers,
                            .state = member->state,
                            .group_rank = member->group_rank,
                            .ranks = member->ranks,
                            .leaving = member->leaving,
                            .dismissed = member->dismissed,
                            .hosts = member->local});
  }
  return record;
}

Job::Job(TimePoint now, const JobRecord& record, JobOptions options, LinkId first, bool has_store)
    : Job(terms_of(record.nodes.front().join), with_restarts_of(record, std::move(options))) {
  round_ = Round{{record.round, record.phase, record.world_size}, members_of(record, now, first)};
  for (const auto& [link, member] : round_.members()) leases_.renew(link, now);
  sealed_at_ = record.sealed_at;
  since_ = record.since;
  history_ = RoundHistory{record.history};
  time_ = TimeAccounting{record.time};
  round_end_ = record.round_end;
  finish_ = record.finish;
  pause_until_ = record.pause_until;
  why_again_ = record.why_again;
  exclusions_ = Exclusions{record.exclusions};
  evicted_nodes_ = EvictedNodes{record.evicted_nodes};
  admission_.follow(round_);
  steps_ = 1;
  has_lost_its_store_ = !has_store;
  if (record.alive) stalled_since_ = std::min(std::max(*record.alive, sealed_at_), now);
  meets_again_ = !over() && round_.phase() == Round::Phase::gathering && !pause_until_;
  if (over()) return;
  if (round_.phase() != Round::Phase::sealed) status_due_ = now + options_.status_interval;
  // Nodes with a seat trained on meanwhile; no coordinator was there to see requests to the store.
  if (round_.phase() == Round::Phase::sealed) {
    time_.has_worked(now);
    time_.trains();
  }
  place_time(now);
}

// On the standby: the node that hosted the coordinator is gone, with its workers or without a seat.
void Job::lose_host(TimePoint now, TimePoint heard, LinkId link, coordinator::Actions& actions) {
  const TimeKept kept{*this, now};
  const TimePoint last = std::min(std::max(heard, sealed_at_), now);
  if (round_.find(link) != nullptr) round_.set_broken(link, last);
  lose(now, {.holder = link, .heard = last}, "it hosted the job, and no longer responds", actions);
  settle(now, actions);
}

void Job::succeed_host(TimePoint now, LinkId link, coordinator::Actions& actions) {
  const TimeKept kept{*this, now};
  const Member host = *round_.find(link);
  // Its round had drained before, so the store was of no use.
  if (round_.phase() == Round::Phase::draining) has_lost_its_store_ = false;
  leases_.forget(link);
  round_.leave(link);
  actions.emplace_back(
      change_of(host, coordinator::NodeChange::Kind::left, "it transferred leadership"));
  if (round_.phase() == Round::Phase::sealed) {
    round_end_.change = true;
    break_round(now, fmt::format("{} left and transferred leadership", name_of(host)), actions);
  }
  settle(now, actions);
}

bool Job::keeps_round_of(LinkId link) const {
  const Member* const member = round_.find(link);
  return member != nullptr && member->state != State::waiting && !over() &&
         round_.phase() == Round::Phase::sealed && !has_lost_its_store_;
}

void Job::lose_store(TimePoint now, coordinator::Actions& actions) {
  const TimeKept kept{*this, now};
  has_lost_its_store_ = true;
  settle(now, actions);
}

// The round continues only until it is known which nodes are present. If nodes have finished their
// part, it continues if it can, because their work would have to be repeated.
void Job::consider_lost_store(TimePoint now, coordinator::Actions& actions) {
  if (!has_lost_its_store_ || over() || round_.phase() != Round::Phase::sealed) return;
  if (round_.away() > 0) return;
  if (round_.count(State::succeeded) > 0 && !terms_.store_is_local) return;
  break_for_lost_store(now, actions);
}

// Polite: nothing has failed, so no restart is used.
void Job::break_for_lost_store(TimePoint now, coordinator::Actions& actions) {
  round_end_.change = true;
  break_round(now, "its cpprund was restarted, and the store of the round was lost", actions);
}

// The next coordinator must know which nodes have finished their part: they may be gone by then.
void Job::look_at_record(TimePoint now) {
  if (!record_due_ || now < *record_due_) return;
  record_due_.reset();
  if (!over() && round_.phase() == Round::Phase::sealed) ++steps_;
}

}  // namespace cpprun
