// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/leadership.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "proto/bounds.h"
#include "proto/standby_bounds.h"

namespace cpprun {

Leadership::Leadership(Duration lease)
    : patience_(bounds::vote_patience(lease) -
                std::min(Duration{bounds::fence_margin}, lease / 10)) {}

void Leadership::begin(std::size_t nodes) {
  end();
  size_ = nodes;
}

bool Leadership::may_vote(LinkId node, TimePoint now) {
  const auto [found, is_new] = nodes_.try_emplace(node);
  // It hears of the standby after now, and is silent for a lease before it votes.
  found->second.heard = std::max(found->second.heard, now);
  return is_new;
}

std::optional<LinkId> Leadership::voter(const Agent& agent) const {
  for (const auto& [link, node] : nodes_) {
    if (node.agent == agent) return link;
  }
  return std::nullopt;
}

void Leadership::end() {
  standby_.reset();
  nodes_.clear();
}

void Leadership::heard(LinkId node, TimePoint moment) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end()) found->second.heard = std::max(found->second.heard, moment);
}

void Leadership::released(LinkId node) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end()) found->second.is_released = true;
}

bool Leadership::has_vote(LinkId node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && !found->second.is_released;
}

void Leadership::moved(LinkId from, LinkId to) {
  if (standby_ == from) standby_ = to;
  auto node = nodes_.extract(from);
  if (node.empty()) return;
  node.key() = to;
  nodes_.insert(std::move(node));
}

TimePoint Leadership::until_of(const Node& node) const {
  return node.is_released ? TimePoint::max() : node.heard + patience_;
}

// A node that may not vote follows for ever.
std::optional<TimePoint> Leadership::until() const {
  if (!may_be_lost() || !standby_) return std::nullopt;
  std::vector<TimePoint> ends;
  for (const auto& [link, node] : nodes_) ends.push_back(until_of(node));
  const std::size_t others = size_ == 0 ? 0 : size_ - 1;
  ends.resize(std::max(ends.size(), others), TimePoint::max());
  const std::size_t at = needed() == 0 ? 0 : needed() - 1;
  std::ranges::nth_element(ends, ends.begin() + static_cast<std::ptrdiff_t>(at), std::greater{});
  TimePoint until = ends[at];
  if (const auto found = nodes_.find(*standby_); found != nodes_.end()) {
    until = std::max(until, until_of(found->second));
  }
  return until == TimePoint::max() ? std::nullopt : std::optional(until);
}

bool Leadership::is_settled() const {
  return !until().has_value();
}

}  // namespace cpprun
