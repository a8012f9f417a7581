// SPDX-License-Identifier: BSD-3-Clause
// The part of Coordinator that is a standby of another coordinator: it collects the votes of the
// nodes that have lost that coordinator, and takes over its job when there are enough. The scheme
// is a lease for each node (Gray and Cheriton, 1989) and a majority of the nodes; see
// docs/states.md, "Who leads".

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "proto/bounds.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/job/leases.h"

namespace cpprun {

namespace {

bool has_seat(const JobRecord::Node& node) {
  return node.group_rank && node.state != Member::State::waiting;
}

bool is_of(const JobRecord::Node& node, const link::Join& join) {
  return node.join.host == join.host && node.join.pid == join.pid && node.join.agent == join.agent;
}

std::size_t seats_of(const JobRecord& record) {
  return static_cast<std::size_t>(std::ranges::count_if(record.nodes, has_seat));
}

std::size_t votes_needed(const JobRecord& record) {
  return record.votes_needed != 0 ? record.votes_needed : votes_to_lead(seats_of(record));
}

}  // namespace

const Coordinator::Entry* Coordinator::hosted() const {
  const auto found = options_.only ? jobs_.find(options_.only->id) : jobs_.end();
  return found == jobs_.end() ? nullptr : found->second.get();
}

void Coordinator::on(TimePoint, const Succession& event, Actions&) {
  if (!candidacy_ || event.record.job() != options_.only->id) return;
  if (candidacy_->record && event.record.round < candidacy_->record->round) return;
  candidacy_->record = event.record;
  candidacy_->first_link = event.first_link;
  candidacy_->asked_at.clear();
}

void Coordinator::on(TimePoint now, const Standing& event, Actions& actions) {
  if (!candidacy_) return;
  candidacy_->own = event.own;
  if (candidacy_->stands()) return consider_leading(now, actions);
  // None of their votes was used: they may follow the other coordinator again.
  for (const auto& [caller, join] : std::exchange(candidacy_->asked, {})) {
    const std::string reason = "the coordinator answers again";
    actions.emplace_back(coordinator::Say{caller.link, link::NotLeading{reason}});
    actions.emplace_back(coordinator::HangUp{caller.link, reason});
  }
}

// A vote counts only for the round of the record. In a later round the node has met nodes that are
// unknown here. A vote for an earlier round is not the promise on which the coordinator relies.
bool Coordinator::is_vote(const link::Join& join) const {
  return candidacy_->record && join.vote != RoundNumber{} && join.vote == candidacy_->record->round;
}

// Counts each node once that has a seat in the round, does not host the other coordinator and is
// not leaving: the coordinator does not count on the votes of leaving nodes.
std::size_t Coordinator::votes() const {
  const auto votes_for_us = [this](const JobRecord::Node& node) {
    if (!has_seat(node) || node.hosts || node.leaving) return false;
    if (is_vote(candidacy_->own) && is_of(node, candidacy_->own)) return true;
    return std::ranges::any_of(candidacy_->asked, [&](const Newcomer& each) {
      return is_vote(each.second) && is_of(node, each.second);
    });
  };
  return static_cast<std::size_t>(std::ranges::count_if(candidacy_->record->nodes, votes_for_us));
}

// A node whose vote was declined may have rejoined the other coordinator since. A vote that it sent
// before that, through an older link, must not count.
bool Coordinator::is_outdated(const link::Join& join) {
  if (!is_vote(join)) return false;
  const auto node = std::ranges::find_if(candidacy_->record->nodes,
                                         [&](const auto& each) { return is_of(each, join); });
  if (node == candidacy_->record->nodes.end()) return false;
  link::AgentTime& latest = candidacy_->asked_at[{join.host, join.pid, join.agent}];
  if (join.sent < latest) return true;
  latest = join.sent;
  return false;
}

void Coordinator::ask_standby(TimePoint now, const Caller& caller, const link::Join& join,
                              Actions& actions) {
  std::string reason;
  if (is_outdated(join)) {
    reason = "its agent speaks through a newer link";
  } else if (!candidacy_->stands() || !is_vote(candidacy_->own)) {
    reason = "this standby is still in contact with the coordinator, or does not know this round";
  } else if (join.vote != RoundNumber{} && !is_vote(join)) {
    reason = fmt::format("this standby could resume round {}, but not round {}",
                         candidacy_->record->round.value, join.vote.value);
  }
  if (!reason.empty()) {
    actions.emplace_back(coordinator::Say{caller.link, link::NotLeading{reason}});
    actions.emplace_back(coordinator::HangUp{caller.link, reason});
    return;
  }
  // Replace what the agent sent through an older link.
  std::erase_if(candidacy_->asked, [&](const Newcomer& each) {
    const link::Join& known = each.second;
    return known.host == join.host && known.pid == join.pid && known.agent == join.agent;
  });
  job_of_link_[caller.link] = join.job;
  candidacy_->asked.emplace_back(caller, join);
  consider_leading(now, actions);
  // A node that has finished waits for the end of the job, not for a seat.
  if (!candidacy_ || join.done) return;
  const std::size_t seats = seats_of(*candidacy_->record);
  actions.emplace_back(coordinator::Say{
      caller.link,
      link::Waiting{fmt::format("the coordinator is lost, and its standby has the votes of {} of "
                                "the {} nodes of round {}; it needs {}",
                                votes(), seats, candidacy_->record->round.value,
                                votes_needed(*candidacy_->record))}});
}

// A standby reports that it leads the job of a master that was lost, and has found this master in
// its place.
void Coordinator::hear_leader(TimePoint now, const Caller& caller, const link::WhoHosts& leader,
                              Actions& actions) {
  const link::Led led{leader.leads_address, leader.leads_port};
  const auto found = jobs_.find(options_.only->id);
  const std::size_t said_before = actions.size();
  if (found != jobs_.end() && found->second->job.step_aside(now, led, actions)) {
    const bool is_transferred = found->second->job.transfers_leadership();
    if (!led_) {
      actions.emplace_back(coordinator::Note{
          is_transferred ? fmt::format("leadership moved to {}", leader.host)
                         : fmt::format("job \"{}\" is led by {}; this node joins it there",
                                       options_.only->id, leader.host)});
    }
    led_ = led;
    look_after(options_.only->id, said_before, actions);
  } else if (found != jobs_.end() && !found->second->job.over()) {
    actions.emplace_back(coordinator::Note{
        .line = fmt::format("{} ({}) leads a job \"{}\" as well: one of the two has to end",
                            leader.host, caller.peer, options_.only->id),
        .level = LogLevel::warning});
  }
  actions.emplace_back(coordinator::HangUp{caller.link, "it has its answer"});
}

void Coordinator::turn_away(const Caller& caller, const link::Join& join, Actions& actions) const {
  const std::string reason = "this coordinator lost leadership: a standby may lead the job";
  if (led_ && join.can_lead) {
    actions.emplace_back(coordinator::Say{caller.link, *led_});
  } else if (caller.local) {
    actions.emplace_back(coordinator::Say{caller.link, link::Refused{reason}});
  }
  actions.emplace_back(coordinator::HangUp{caller.link, reason});
}

void Coordinator::consider_leading(TimePoint now, Actions& actions) {
  if (!candidacy_->record || !is_vote(candidacy_->own)) return;
  if (votes() < votes_needed(*candidacy_->record)) return;
  lead(now, *std::exchange(candidacy_, std::nullopt), /*is_transfer=*/false, actions);
}

void Coordinator::on(TimePoint now, const TakesOver& event, Actions& actions) {
  if (!candidacy_ || !candidacy_->record) return;
  candidacy_->own = event.own;
  lead(now, *std::exchange(candidacy_, std::nullopt), /*is_transfer=*/true, actions);
}

// Like a recovery after any other loss of a coordinator, except that the node that hosted it is
// known to be gone.
void Coordinator::lead(TimePoint now, Candidacy candidacy, bool is_transfer, Actions& actions) {
  JobRecord record = *std::move(candidacy.record);
  const std::string id = record.job();
  std::optional<LinkId> host;
  for (std::size_t i = 0; i < record.nodes.size(); ++i) {
    JobRecord::Node& node = record.nodes[i];
    if (node.hosts) host = LinkId{candidacy.first_link.value + i};
    // The nodes reach this coordinator from other addresses than they used to reach the other one.
    if (is_of(node, candidacy.own)) node.peer = "127.0.0.1";
    for (const auto& [caller, join] : candidacy.asked) {
      if (is_of(node, join)) node.peer = caller.peer;
    }
    node.further_peers.clear();
  }
  const auto entry = jobs_.emplace(
      id, std::make_unique<Entry>(Entry{Job{now, record, options_.options, candidacy.first_link},
                                        Store{}, record.founder, record.owner, 0}));
  Job& job = entry.first->second->job;
  actions.emplace_back(coordinator::Lead{id});
  const std::size_t said_before = actions.size();
  // No voter had heard from the coordinator for at least this long.
  const TimePoint heard = now - bounds::vote_patience(options_.options.lease);
  if (host) {
    is_transfer ? job.succeed_host(now, *host, actions) : job.lose_host(now, heard, *host, actions);
  }
  for (const Newcomer& each : candidacy.asked) enter(now, *entry.first->second, each, actions);
  look_after(id, said_before, actions);
}

}  // namespace cpprun
