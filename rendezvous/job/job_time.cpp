// SPDX-License-Identifier: BSD-3-Clause
// The part of Job that accounts for its nodes' time, and converts times of their clocks.
#include "rendezvous/job/job_time.h"

#include <algorithm>

namespace cpprun {

// Converts a time of the agent's clock to ours. Returns now if the agent sent none, or if it would
// lie in the future.
TimePoint Job::when(TimePoint now, const Member& member, link::AgentTime moment) {
  if (moment == link::AgentTime{}) return now;
  // The agent in the coordinator's own process shares its clock.
  const auto known = member.local ? TimePoint{moment} : member.clock.by_coordinator(moment);
  return std::min(known.value_or(now), now);
}

void Job::place_time(TimePoint now) {
  using State = Member::State;
  TimeAccounting::Nodes nodes{};
  const auto put = [&nodes](Account account, std::size_t count) {
    nodes[static_cast<std::size_t>(account)] += count;
  };
  if (over() || is_deposed_) return time_.place(now, nodes);
  switch (round_.phase()) {
    case Round::Phase::gathering: {
      const bool has_enough = round_.size() >= static_cast<std::size_t>(terms_.nodes_min);
      const Account waits = has_enough ? Account::rendezvous : Account::waiting_for_nodes;
      put(pause_until_ ? Account::pausing : waits, round_.size());
      break;
    }
    case Round::Phase::sealed:
      put(time_.training() ? Account::training : Account::starting, round_.count(State::running));
      put(Account::standing_by, round_.count(State::waiting) + round_.count(State::succeeded));
      break;
    case Round::Phase::draining:
      put(Account::draining, round_.seated());
      put(Account::standing_by, round_.count(State::waiting));
      break;
  }
  time_.place(now, nodes);
}

void Job::store_asked(TimePoint now) {
  if (over() || round_.phase() != Round::Phase::sealed || time_.training()) return;
  time_.trains();
  place_time(now);
}

// No node of the broken round is left.
void Job::settle_time(TimePoint now) {
  if (round_end_.reached != link::Reached{}) time_.has_worked(now);
  const Failures::Entry* root = round_end_.failures.root();
  // The time without a coordinator was not training if the store was lost, or if no node kept its
  // seat.
  const bool is_in_vain = stalled_since_ && (has_lost_its_store_ || !has_resumed_);
  const Duration stalled =
      is_in_vain ? std::max(round_end_.at - *stalled_since_, Duration{}) : Duration{};
  if (root == nullptr) {
    const char* const known = is_in_vain ? "coordinator_lost" : "membership_change";
    const char* const other = has_lost_its_store_ ? "store_lost" : known;
    const char* const change = round_end_.ordered ? "order" : other;
    const char* const why = round_end_.stop ? "stopped" : change;
    return time_.settled(now, {.id = why, .unnoticed = stalled, .failed = false});
  }
  const std::string& cause = root->failure.cause;
  time_.settled(now, {.id = cause.empty() ? "unknown" : cause,
                      .host = root->failure.host,
                      .unnoticed = std::max({round_end_.at - root->at, stalled, Duration{}})});
}

void Job::close_time(TimePoint now) {
  if (round_.phase() == Round::Phase::draining) settle_time(now);
  if (round_.phase() == Round::Phase::sealed) time_.has_worked(now);
  time_.place(now, {});
}

}  // namespace cpprun
