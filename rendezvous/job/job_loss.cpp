// SPDX-License-Identifier: BSD-3-Clause
// The part of Job that detects lost nodes: broken links and expired leases.

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/job/job.h"
#include "rendezvous/job/job_texts.h"
#include "rendezvous/job/job_time.h"

namespace cpprun {

using coordinator::NodeChange;

void Job::close(TimePoint now, const Closing& closing, coordinator::Actions& actions) {
  const TimeKept kept{*this, now};
  const auto& [link, reason, broken] = closing;
  const Member* member = round_.find(link);
  if (member == nullptr || !member->connected) return;
  if (is_deposed_) {
    // If this coordinator resumes leadership, a node with a seat may still have workers.
    return votes_.may_be_lost() && member->state != Member::State::waiting
               ? round_.set_broken(link, now)
               : round_.leave(link);
  }
  const bool has_workers =
      member->state == Member::State::running || member->state == Member::State::succeeded;
  if (over() && broken && member->group_rank && !member->local) {
    // It may not have received the end. The master waits for it as long as for any silent node.
    round_.set_broken(link, now);
    return;
  }
  if (!over() && broken && may_rejoin(*member)) {
    round_.set_broken(link, now);
    actions.emplace_back(coordinator::Note{
        fmt::format("the link of {} broke: {}; the next round waits up to {} s for it",
                    name_of(*member), reason, in_seconds(lease()))});
    return;
  }
  if (over() || !has_workers) {
    // None of its processes is alive, so its seat is free at once. A node that was asked to stop
    // has sent `leave`, and closes its link when it has drained. The standby closes its link when
    // it leads.
    const bool takes_over = transfer_until_ && link == transfer_link_;
    const bool has_said_so = !broken && (member->leaving || round_end_.stop || takes_over);
    if (!over() && !has_said_so) {
      actions.emplace_back(
          coordinator::Note{fmt::format("{} left while waiting: {}", name_of(*member), reason)});
      actions.emplace_back(change_of(*member, NodeChange::Kind::lost, reason));
    }
    leases_.forget(link);
    round_.leave(link);
    // The next coordinator need not wait for this node. After the end of the job this does not
    // matter: the record of ten thousand nodes must not be written ten thousand times as they leave
    // one by one.
    if (steps_ > 0 && !over()) ++steps_;
    settle(now, actions);
    consider_sealing(now, actions);
    return;
  }
  round_.set_broken(link, now);
  actions.emplace_back(
      coordinator::Note{.line = fmt::format("the link of {} broke: {}; it has {} s to come back",
                                            name_of(*member), reason, in_seconds(lease())),
                        .level = LogLevel::warning});
}

std::optional<Job::Unattended> Job::unattended() const {
  if (round_.size() == 0 || round_.away() < round_.size()) return std::nullopt;
  TimePoint since{};
  for (const auto& [link, member] : round_.members()) {
    since = std::max(since, member->broke_at.value_or(since));
  }
  return Unattended{since, since + lease()};
}

// If several nodes fall silent at once, as after a partition, all are removed before anything
// follows. Otherwise a round could start between two of them, only to be broken at once.
void Job::give_up_silent(TimePoint now, coordinator::Actions& actions) {
  const auto silent = leases_.expire(now);
  if (silent.empty()) return;
  const std::string why = fmt::format("silent for {} s", in_seconds(lease()));
  for (const Leases::Expired& each : silent) lose(now, each, why, actions);
  settle(now, actions);
  consider_lost_store(now, actions);
  consider_sealing(now, actions);
}

// The lease expired, and with it the agent's own: the agent has killed its workers. Its messages
// are ignored from here on. The caller handles the consequences.
void Job::lose(TimePoint now, const Leases::Expired& expired, const std::string& why,
               coordinator::Actions& actions) {
  const LinkId link = expired.holder;
  const Member* found = round_.find(link);
  // The loss of another node at the same moment has broken the round, which removed this one.
  if (found == nullptr) return;
  const Member member = *found;
  if (over() && !member.connected) {
    round_.leave(link);
    return;
  }
  const bool has_done_its_part =
      member.state == Member::State::succeeded && round_.phase() == Round::Phase::sealed && !over();
  if (has_done_its_part) {
    // It has no workers left, and no node waits for it. It keeps its place until the round is over,
    // and learns the result when it reconnects.
    actions.emplace_back(coordinator::Note{fmt::format(
        "{} cannot be reached: {}; all of its workers had ended with 0", name_of(member), why)});
    if (member.connected) actions.emplace_back(coordinator::HangUp{link, why});
    if (member.connected) round_.set_broken(link, expired.heard);
    leases_.forget(link);
    return;
  }
  actions.emplace_back(coordinator::Note{
      .line = fmt::format("{} is lost: {}", name_of(member), why), .level = LogLevel::warning});
  actions.emplace_back(change_of(member, NodeChange::Kind::lost, why));
  if (member.connected) actions.emplace_back(coordinator::HangUp{link, why});
  leases_.forget(link);
  round_.leave(link);
  if (over()) return;
  const bool had_workers =
      round_.phase() != Round::Phase::gathering && member.state == Member::State::running;
  const TimePoint at = member.broke_at.value_or(expired.heard);
  // A node that leaves, or whose job was being stopped, is gone as requested.
  const bool follows = member.leaving || (round_end_.stop && at >= round_end_.at);
  if (had_workers && !follows) {
    const std::string what = fmt::format("{} is lost", name_of(member));
    const auto wall = std::chrono::duration_cast<WallTime::duration>(at.time_since_epoch() +
                                                                     options_.wall_offset);
    const bool has_wall = options_.wall_offset != Duration{};
    round_end_.failures.add(
        {.failure = failure_of_lost(member, lease(), has_wall ? WallTime{wall} : WallTime{}),
         .at = at,
         .lost = true,
         .what = what});
    if (round_.phase() == Round::Phase::sealed) break_round(now, what, actions);
  }
}

}  // namespace cpprun
