// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/exclusions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "rendezvous/job/bounds.h"
#include "rendezvous/job/operator_command.h"

namespace cpprun {

bool is_host_of(const std::string& host, const link::Join& join, const std::string& peer) {
  return host == join.host || host == peer ||
         std::ranges::find(join.addresses, host) != join.addresses.end();
}

Result<void> Exclusions::exclude(TimePoint now, const std::string& host,
                                 std::optional<TimePoint> until, const std::string& why) {
  drop_old(now);
  const auto found = std::ranges::lower_bound(entries_, host, {}, &Entry::host);
  if (found != entries_.end() && found->host == host) {
    *found = {host, until, why};
    return {};
  }
  if (entries_.size() >= bounds::exclusions_max) {
    return failure(
        fmt::format("{} hosts are already excluded, the maximum; include some of them again",
                    bounds::exclusions_max));
  }
  entries_.insert(found, {host, until, why});
  return {};
}

bool Exclusions::include(TimePoint now, const std::string& host) {
  drop_old(now);
  return std::erase_if(entries_, [&](const Entry& each) { return each.host == host; }) > 0;
}

std::optional<std::string> Exclusions::objection(TimePoint now, const link::Join& join,
                                                 const std::string& peer) {
  drop_old(now);
  for (const Entry& each : entries_) {
    if (!is_host_of(each.host, join, peer)) continue;
    const std::string length =
        each.until ? fmt::format("for {:.0f} s more", std::ceil(in_seconds(*each.until - now)))
                   : std::string("until the job is over");
    return fmt::format("{} is excluded {}: {}", each.host, length, each.why);
  }
  return std::nullopt;
}

std::string Exclusions::list(TimePoint now) {
  drop_old(now);
  std::string text;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (i == bounds::nodes_named_max) return text + " and others";
    text += (i == 0 ? "" : ", ") + entries_[i].host;
  }
  return text;
}

void Exclusions::drop_old(TimePoint now) {
  std::erase_if(entries_, [now](const Entry& each) { return each.until && *each.until <= now; });
}

void EvictedNodes::add(const link::Join& agent, std::string why) {
  if (entries_.size() == bounds::dismissals_max) entries_.pop_front();
  entries_.push_back({agent.host, agent.pid, agent.agent, std::move(why)});
}

const std::string* EvictedNodes::find(const link::Join& agent) const {
  const auto found = std::ranges::find_if(entries_, [&](const Entry& each) {
    return each.agent == agent.agent && each.pid == agent.pid && each.host == agent.host;
  });
  return found == entries_.end() ? nullptr : &found->why;
}

}  // namespace cpprun
