// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/leases.h"

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <utility>

#include "rendezvous/job/bounds.h"

namespace cpprun {

void Leases::renew(LinkId holder, TimePoint now) {
  const auto found = entries_.find(holder);
  if (found == entries_.end()) {
    entries_[holder] = by_age_.insert(by_age_.end(), Entry{holder, now});
    return;
  }
  found->second->heard = now;
  by_age_.splice(by_age_.end(), by_age_, found->second);
}

void Leases::forget(LinkId holder) {
  const auto found = entries_.find(holder);
  if (found == entries_.end()) return;
  by_age_.erase(found->second);
  entries_.erase(found);
}

void Leases::move(LinkId from, LinkId to) {
  const auto found = entries_.find(from);
  if (found == entries_.end()) return;
  const auto entry = found->second;
  entry->holder = to;
  entries_.erase(found);
  entries_[to] = entry;
}

std::optional<TimePoint> Leases::first_end() const {
  if (by_age_.empty()) return std::nullopt;
  const TimePoint end = by_age_.front().heard + length_;
  return held_until_ ? std::max(end, *held_until_) : end;
}

Duration Leases::look_ahead() const {
  return std::min(Duration{bounds::coordinator_blink}, length_ / 4);
}

Duration Leases::watch() const {
  return std::min(Duration{bounds::coordinator_nap}, length_ / 4);
}

std::optional<TimePoint> Leases::next_expiry() const {
  const auto end = first_end();
  if (!end) return std::nullopt;
  for (const Duration ahead : {watch(), look_ahead()}) {
    if (awake_at_ < *end - ahead) return *end - ahead;
  }
  return *end;
}

std::vector<Leases::Expired> Leases::expire(TimePoint now) {
  const TimePoint was_awake = std::exchange(awake_at_, now);
  if (was_awake < now - watch()) awake_since_ = now;
  const auto end = first_end();
  if (!end || now < *end) {
    if (held_until_ && *held_until_ <= now) {  // Holders that seemed silent were heard.
      held_until_.reset();
      holds_ = 0;
    }
    return {};
  }
  const bool late = now - *end > bounds::coordinator_blink;
  // If a sleep ended only a moment ago, the holders had no time to be heard either.
  const bool just_woke = awake_since_ > *end - watch() + look_ahead();
  const bool slept = late || just_woke || was_awake < *end - 2 * look_ahead();
  // Not forever: a machine that is always late must still give up dead nodes.
  if (slept && holds_ < bounds::coordinator_naps_max) {
    // Nodes may have slept as well and may wake later. They get as much time as this sleep took,
    // and at most one lease.
    const Duration nap = bounds::coordinator_nap;
    held_until_ = now + (holds_ == 0 ? std::clamp(now - *end, nap, std::max(nap, length_)) : nap);
    ++holds_;
    return {};
  }
  held_until_.reset();
  holds_ = 0;
  std::vector<Expired> gone;
  while (!by_age_.empty() && by_age_.front().heard + length_ <= now) {
    gone.push_back(by_age_.front());
    forget(by_age_.front().holder);
  }
  return gone;
}

RoundVotes::RoundVotes(Duration lease)
    : timeout_(bounds::vote_timeout(lease) - std::min(Duration{bounds::fence_margin}, lease / 10)) {
}

void RoundVotes::begin(std::size_t nodes) {
  end();
  size_ = nodes;
}

void RoundVotes::appoint(LinkId standby) {
  appointments_ = {{.standby = standby, .voters = size_ - 1, .needed = votes_to_lead(size_)}};
}

// A node that is in an earlier appointment but not in this one may be cut off together with the
// standby of that one, and may vote for it.
bool RoundVotes::appoint_again(LinkId standby, const std::vector<LinkId>& voters) {
  std::size_t needed = votes_to_lead(voters.size() + 1);
  for (const Appointment& before : appointments_) {
    if (before.standby == standby || is_released(before.standby)) continue;
    const std::size_t others = before.voters - std::min(before.voters, voters.size());
    if (others >= before.needed) return false;
    const std::size_t rest = before.needed - others;
    if (rest <= voters.size()) needed = std::max(needed, voters.size() - rest + 1);
  }
  if (needed > voters.size()) return false;
  const std::unordered_set<LinkId> kept(voters.begin(), voters.end());
  for (auto& [link, node] : nodes_) {
    if (!kept.contains(link)) node.appointments = std::min(node.appointments, appointments_.size());
  }
  appointments_.push_back({.standby = standby, .voters = voters.size(), .needed = needed});
  return true;
}

std::size_t RoundVotes::votes_needed() const {
  return appointments_.empty() ? votes_to_lead(size_) : appointments_.back().needed;
}

void RoundVotes::may_vote(LinkId node, TimePoint now) {
  // It learns of the standby after now, and votes only after a long silence.
  nodes_.try_emplace(node, Node{.heard = now});
}

std::optional<LinkId> RoundVotes::voter(const Agent& agent) const {
  for (const auto& [link, node] : nodes_) {
    if (node.agent == agent) return link;
  }
  return std::nullopt;
}

void RoundVotes::end() {
  appointments_.clear();
  nodes_.clear();
}

void RoundVotes::heard(LinkId node, TimePoint moment) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end()) found->second.heard = std::max(found->second.heard, moment);
}

void RoundVotes::released(LinkId node) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end()) found->second.is_released = true;
}

bool RoundVotes::has_vote(LinkId node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && !found->second.is_released;
}

bool RoundVotes::is_released(LinkId node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.is_released;
}

void RoundVotes::moved(LinkId from, LinkId to) {
  for (Appointment& each : appointments_) {
    if (each.standby == from) each.standby = to;
  }
  auto node = nodes_.extract(from);
  if (node.empty()) return;
  node.key() = to;
  nodes_.insert(std::move(node));
}

TimePoint RoundVotes::until_of(const Node& node) const {
  return node.is_released ? TimePoint::max() : node.heard + timeout_;
}

// How long that appointment cannot win: as long as its standby follows this coordinator, or so many
// of the other nodes that no majority is left. A node that may not vote follows forever.
std::optional<TimePoint> RoundVotes::until_of(std::size_t index) const {
  const Appointment& appointment = appointments_[index];
  std::vector<TimePoint> ends;
  for (const auto& [link, node] : nodes_) {
    if (node.appointments > index) ends.push_back(until_of(node));
  }
  ends.resize(std::max(ends.size(), appointment.voters), TimePoint::max());
  const auto last = static_cast<std::ptrdiff_t>(appointment.voters - appointment.needed);
  std::ranges::nth_element(ends, ends.begin() + last, std::greater{});
  TimePoint until = ends[static_cast<std::size_t>(last)];
  if (const auto found = nodes_.find(appointment.standby); found != nodes_.end()) {
    until = std::max(until, until_of(found->second));
  }
  return until == TimePoint::max() ? std::nullopt : std::optional(until);
}

std::optional<TimePoint> RoundVotes::until() const {
  std::optional<TimePoint> soonest;
  if (!may_be_lost()) return soonest;
  for (std::size_t index = 0; index < appointments_.size(); ++index) {
    const auto until = until_of(index);
    if (until && (!soonest || *until < *soonest)) soonest = until;
  }
  return soonest;
}

bool RoundVotes::is_decided() const {
  return !until().has_value();
}

}  // namespace cpprun
