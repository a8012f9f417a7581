// SPDX-License-Identifier: BSD-3-Clause
// Invariants of a job and its round that hold between two events. The bugs planted in tests/sim
// violate them.

#include <fmt/format.h>

#include <set>

#include "rendezvous/job/job.h"

namespace cpprun {

std::optional<std::string> Round::check() const {
  using State = Member::State;
  std::array<std::size_t, 4> counts{};
  std::size_t leaving = 0;
  std::size_t away = 0;
  std::size_t claims = 0;
  std::set<GroupRank> seats;
  for (const auto& [link, member] : members_) {
    ++counts[index_of(member.state)];
    if (member.leaving) ++leaving;
    if (!member.connected) ++away;
    if (member.claims) ++claims;
    const Member* const holder = member.claims ? holder_of(*member.join.node_rank) : &member;
    if (holder == nullptr) return "a node claims a seat that no node has";
    if (member.claims && member.state != State::waiting) return "who claims a seat has one";
    if (member.connected == member.broke_at.has_value()) return "a link is there, and is broken";
    if (member.state == State::waiting) continue;
    if (!member.group_rank) return fmt::format("{} has no number", member.join.host);
    if (!seats.insert(*member.group_rank).second) {
      return fmt::format("two nodes have the number {}", member.group_rank->value);
    }
  }
  if (counts != counts_ || leaving != leaving_ || away != away_ || claims != claims_)
    return "its members are miscounted";
  if (phase_ == Phase::gathering && seated() > 0) return "it gathers, and a node has a seat";
  if (phase_ == Phase::sealed && count(State::drained) > 0) return "a node has drained unasked";
  return std::nullopt;
}

std::optional<std::string> Job::check() const {
  if (auto broken = round_.check()) return broken;
  if (over()) {
    return status_due_ || pause_until_ ? std::optional<std::string>{"it is over and waits"}
                                       : std::nullopt;
  }
  if (is_deposed_) {
    return next_deadline() ? std::optional<std::string>{"it may not decide, and waits"}
                           : std::nullopt;
  }
  const Round::Phase phase = round_.phase();
  const std::size_t drained = round_.count(Member::State::drained);
  if (pause_until_ && phase != Round::Phase::gathering) return "it pauses in the middle of a round";
  if (phase == Round::Phase::sealed && round_.count(Member::State::running) == 0) {
    return "no node runs, and it is not over";
  }
  if (phase == Round::Phase::draining && drained == round_.seated() && round_.away() == 0 &&
      votes_.is_settled() && !transfer_until_) {
    return "all nodes have drained, and nothing follows";
  }
  const bool a_node_is_done = round_.count(Member::State::succeeded) > 0;
  if (phase == Round::Phase::sealed && has_lost_its_store_ && round_.away() == 0 &&
      (terms_.store_is_local || !a_node_is_done)) {
    return "its round goes on without a store";
  }
  for (const auto& [link, member] : round_.members()) {
    if (member->connected && !member->local && !leases_.watches(link)) {
      return fmt::format("no timeout is set for the silence of {}", name_of(*member));
    }
    const bool is_in = phase == Round::Phase::sealed && member->state != Member::State::waiting;
    if (is_in && !admission_.check(member->peer)) {
      return fmt::format("{} may not use the store of its round", name_of(*member));
    }
  }
  return std::nullopt;
}

}  // namespace cpprun
