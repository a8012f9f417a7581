// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/dismissals.h"

#include <algorithm>
#include <utility>

#include "rendezvous/job/order.h"

namespace cpprun {

void Dismissals::add(const link::Join& agent, std::string why) {
  if (entries_.size() == bounds::dismissals_max) entries_.pop_front();
  entries_.push_back({agent.host, agent.pid, agent.agent, std::move(why)});
}

const std::string* Dismissals::find(const link::Join& agent) const {
  const auto found = std::ranges::find_if(entries_, [&](const Entry& each) {
    return each.agent == agent.agent && each.pid == agent.pid && each.host == agent.host;
  });
  return found == entries_.end() ? nullptr : &found->why;
}

}  // namespace cpprun
