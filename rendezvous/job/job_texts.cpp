// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace cpprun {

link::Failure failure_of_lost(const Member& member, Duration lease, WallTime time) {
  // A node in the coordinator's own process has a loopback address, which is of no use elsewhere.
  const bool is_loopback =
      member.peer.empty() || member.peer.starts_with("127.") || member.peer == "::1";
  const std::string where = is_loopback ? "" : fmt::format(" ({})", member.peer);
  return {.rank = member.ranks.base,
          .group_rank = member.group_rank.value_or(GroupRank{}),
          .host = member.join.host,
          .pid = member.join.pid,
          .status = {.signalled = false, .value = 1},
          .time = time,
          .message = fmt::format(
              "{}{} is lost: no response for {} s; the machine, its network or its cpprun is down",
              name_of(member), where, in_seconds(lease)),
          .cause = std::string(link::node_lost)};
}

coordinator::NodeChange change_of(const Member& member, coordinator::NodeChange::Kind kind,
                                  std::string reason) {
  return {.kind = kind,
          .host = member.join.host,
          .rank = member.group_rank,
          .reason = std::move(reason)};
}

std::string with_host_of_address(std::string message, const Round& round) {
  constexpr std::string_view words = "cannot connect to ";
  const auto found = message.find(words);
  if (found == std::string::npos) return message;
  const auto begin = found + words.size();
  const auto end = std::min(message.find_first_of(",; ", begin), message.size());
  const std::string address = message.substr(begin, end - begin);
  for (const auto& [link, member] : round.members()) {
    const auto& addresses = member->join.addresses;
    const bool is_its =
        member->peer == address || std::ranges::find(addresses, address) != addresses.end();
    if (is_its) return message.insert(end, fmt::format(" ({})", member->join.host));
  }
  return message;
}

std::string second_master_text(const link::WhoHosts& other, const std::string& peer) {
  return fmt::format(
      "{} has two masters: {} (pid {}) at {} and this node; start only one node with "
      "--node-rank=0 (or is_host=true)",
      quoted_job(other.job), other.host, other.pid, peer);
}

std::string quoted_job(const std::string& id) {
  if (id.empty() || id == "none") return "the job";
  return fmt::format("job \"{}\"", id);
}

std::string node_count_text(std::size_t count) {
  return fmt::format("{} {}", count, count == 1 ? "node" : "nodes");
}

std::string status_of(const Round& round, const JobTerms& terms, const Waits& waits) {
  if (waits.pause) {
    return fmt::format("{}, in {:.0f} s (--restart-backoff)", waits.reason,
                       std::ceil(in_seconds(*waits.pause)));
  }
  if (round.phase() == Round::Phase::draining) {
    const std::string running = round.who_is(Member::State::running);
    const std::string succeeded = round.who_is(Member::State::succeeded);
    if (running.empty() && succeeded.empty() && round.away() > 0) {
      return fmt::format("{}; waiting for {} to reconnect", waits.reason, round.who_is_away());
    }
    const char* const both = running.empty() || succeeded.empty() ? "" : ", ";
    return fmt::format("{}; waiting for {}{}{} to stop the workers", waits.reason, running, both,
                       succeeded);
  }
  std::string text = round.who_is_missing(terms.nodes_max);
  if (terms.elastic() && round.size() < static_cast<std::size_t>(terms.nodes_min)) {
    text += fmt::format("; at least {} are needed", terms.nodes_min);
  }
  if (!waits.master.empty()) text += "; " + waits.master;
  if (waits.last_call) {
    text += fmt::format("; starts with {} in {:.0f} s if no other node joins", round.size(),
                        std::ceil(in_seconds(*waits.last_call)));
  }
  return text;
}

}  // namespace cpprun
