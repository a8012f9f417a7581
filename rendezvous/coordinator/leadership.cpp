// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/leadership.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

void StandbyElection::update(const JobRecord& record, LinkId first_link) {
  if (record_ && record.round < record_->round) return;
  record_ = record;
  first_link_ = first_link;
  asked_at_.clear();
}

// A vote counts only for the round of the record. In a later round the node has met nodes that are
// unknown here. A vote for an earlier round is not the promise on which the coordinator relies.
bool StandbyElection::is_vote(const link::Join& join) const {
  return record_ && join.vote != RoundNumber{} && join.vote == record_->round;
}

// Counts each node once that has a seat in the round, does not host the other coordinator and is
// not leaving: the coordinator does not count on the votes of leaving nodes.
std::size_t StandbyElection::votes() const {
  const auto votes_for_us = [this](const JobRecord::Node& node) {
    if (!has_seat(node) || node.hosts || node.leaving) return false;
    if (is_vote(own_) && is_of(node, own_)) return true;
    return std::ranges::any_of(asked_, [&](const JoinRequest& each) {
      return is_vote(each.join) && is_of(node, each.join);
    });
  };
  return static_cast<std::size_t>(std::ranges::count_if(record_->nodes, votes_for_us));
}

// A node whose vote was declined may have rejoined the other coordinator since. A vote that it sent
// before that, through an older link, must not count.
bool StandbyElection::is_outdated(const link::Join& join) {
  if (!is_vote(join)) return false;
  const auto node =
      std::ranges::find_if(record_->nodes, [&](const auto& each) { return is_of(each, join); });
  if (node == record_->nodes.end()) return false;
  link::AgentTime& latest = asked_at_[{join.host, join.pid, join.agent}];
  if (join.sent < latest) return true;
  latest = join.sent;
  return false;
}

std::string StandbyElection::objection_to(const link::Join& join) {
  if (is_outdated(join)) return "replaced by a newer connection of the same agent";
  if (!is_vote(own_)) {
    return "this standby is still in contact with the coordinator, or does not know this round";
  }
  if (join.vote != RoundNumber{} && !is_vote(join)) {
    return fmt::format("this standby could resume round {}, but not round {}", record_->round.value,
                       join.vote.value);
  }
  return {};
}

void StandbyElection::add(const Caller& caller, const link::Join& join) {
  std::erase_if(asked_, [&](const JoinRequest& each) {
    const link::Join& known = each.join;
    return known.host == join.host && known.pid == join.pid && known.agent == join.agent;
  });
  asked_.push_back({caller, join});
}

void StandbyElection::close(LinkId link) {
  std::erase_if(asked_, [link](const JoinRequest& each) { return each.caller.link == link; });
}

bool StandbyElection::is_elected() const {
  return is_vote(own_) && votes() >= votes_needed(*record_);
}

std::string StandbyElection::waiting_text() const {
  return fmt::format(
      "the coordinator is lost, and its standby has the votes of {} of the {} nodes of round {}; "
      "it needs {}",
      votes(), seats_of(*record_), record_->round.value, votes_needed(*record_));
}

StandbyElection::Elected StandbyElection::take() {
  Elected elected{.record = *std::move(record_),
                  .first_link = first_link_,
                  .host = {},
                  .asked = std::move(asked_)};
  std::vector<JobRecord::Node>& nodes = elected.record.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    JobRecord::Node& node = nodes[i];
    if (node.hosts) elected.host = LinkId{first_link_.value + i};
    // The nodes reach this coordinator from other addresses than they used to reach the other one.
    if (is_of(node, own_)) node.peer = "127.0.0.1";
    for (const auto& [caller, join] : elected.asked) {
      if (is_of(node, join)) node.peer = caller.peer;
    }
    node.further_peers.clear();
  }
  return elected;
}

bool DaemonRole::change_addresses(const std::vector<std::string>& places) {
  if (!members_ || members_->places == places) return false;
  members_->places = places;
  return true;
}

// An agent that has followed a leader of a later epoch is rejected. Its claim cannot be verified,
// so this daemon keeps the leadership for as long as its lease lasts.
std::optional<link::NotLeading> DaemonRole::objection_to(const link::Join& join) const {
  if (following_) {
    return link::NotLeading{.reason = "this cpprund is a standby: " + following_->reason,
                            .address = following_->address,
                            .port = following_->port};
  }
  if (members_ && join.epoch > members_->epoch) {
    return link::NotLeading{fmt::format(
        "this cpprund is the leader in epoch {}, but this node has followed the leader of epoch {}",
        members_->epoch, join.epoch)};
  }
  return std::nullopt;
}

void DaemonRole::close(LinkId link) {
  switching_.erase(link);
  std::erase_if(waiting_, [link](const JoinRequest& each) { return each.caller.link == link; });
}

}  // namespace cpprun
