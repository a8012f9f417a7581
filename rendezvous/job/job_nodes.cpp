// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "rendezvous/job/job_texts.h"

namespace cpprun {

namespace {

// How long nodes are asked for worker stats after a client's last look.
constexpr Duration watch_time = std::chrono::seconds(10);

std::vector<std::pair<LinkId, Member>> members_of(const JobRecord& record, TimePoint now,
                                                  LinkId first) {
  std::vector<std::pair<LinkId, Member>> members;
  for (const JobRecord::Node& each : record.nodes) {
    // It has no takeover window, so its lease counts as begun earlier.
    const Duration early = each.hosts ? record.takeover_window : Duration{};
    members.emplace_back(first, Member{.join = each.join,
                                       .peer = each.peer,
                                       .further_peers = each.further_peers,
                                       .leaving = each.leaving,
                                       .dismissed = each.dismissed,
                                       .connected = false,
                                       .broke_at = now,
                                       .state = each.state,
                                       .since = now - early,
                                       .group_rank = each.group_rank,
                                       .ranks = each.ranks});
    ++first.value;
  }
  // In the order of their leases.
  std::ranges::stable_sort(members, {}, [](const auto& each) { return each.second.since; });
  return members;
}

}  // namespace

JobNodes::JobNodes(TimePoint now, const JobRecord& record, Duration lease, LinkId first)
    : round_({record.round, record.phase, record.world_size}, members_of(record, now, first),
             lease),
      exclusions_(record.exclusions),
      evicted_nodes_(record.evicted_nodes) {}

void JobNodes::keep(JobRecord& record) const {
  record.round = round_.number();
  record.phase = round_.phase();
  record.world_size = round_.world_size();
  for (const auto& [link, member] : round_.members()) {
    // A spare asks for a seat again, as if for the first time. So does a claimant.
    const bool has_a_seat = member->state != Member::State::waiting;
    if (member->claims || (!has_a_seat && round_.phase() != Round::Phase::gathering)) continue;
    record.nodes.push_back({.join = member->join,
                            .peer = member->peer,
                            .further_peers = member->further_peers,
                            .state = member->state,
                            .group_rank = member->group_rank,
                            .ranks = member->ranks,
                            .leaving = member->leaving,
                            .dismissed = member->dismissed,
                            .hosts = member->local});
  }
  record.exclusions = exclusions_.entries();
  record.evicted_nodes = evicted_nodes_.entries();
}

bool JobNodes::reject(TimePoint now, const Caller& caller, const link::Join& join, bool is_over,
                      Actions& actions) {
  const bool is_idle = join.after == RoundNumber{} || join.idle;
  if (const std::string* why = is_idle ? evicted_nodes_.find(join) : nullptr) {
    actions.emplace_back(coordinator::Say{caller.link, link::Dismissed{*why}});
    actions.emplace_back(coordinator::HangUp{caller.link, *why});
    return true;
  }
  if (is_over || caller.local) return false;
  const auto objection = exclusions_.objection(now, join, caller.peer);
  if (objection) {
    coordinator::refuse({caller.link, caller.peer}, join.host, *objection, actions);
  }
  return objection.has_value();
}

// A node was started to replace another, which may be dead. The seat becomes free when the old node
// is lost, and stays taken if the old node sends another message.
std::optional<link::Waiting> JobNodes::wait_for_seat(const link::Join& join) const {
  const Member* holder = join.node_rank ? round_.holder_of(*join.node_rank) : nullptr;
  if (holder == nullptr) return std::nullopt;
  return link::Waiting{fmt::format(
      "node rank {} is taken by {} (pid {}){} within {} s", *join.node_rank, holder->join.host,
      holder->join.pid,
      holder->connected ? "; it becomes free unless that node responds"
                        : ", which lost contact; it becomes free unless that node reconnects",
      in_seconds(round_.leases().length()))};
}

void JobNodes::enter(TimePoint now, const Caller& caller, const link::Join& join,
                     std::vector<std::string> further_peers) {
  round_.enter(caller.link, {.join = join,
                             .peer = caller.peer,
                             .further_peers = std::move(further_peers),
                             .local = caller.local,
                             .since = now});
  if (!caller.local) round_.clock_of(caller.link).heard(now, join.sent);
}

void JobNodes::resume(TimePoint now, LinkId old_link, const Caller& caller, const link::Join& join,
                      Actions& actions) {
  const LinkId link = caller.link;
  if (round_.find(old_link)->connected) {
    actions.emplace_back(
        coordinator::HangUp{old_link, "replaced by a newer connection of the same agent"});
  }
  round_.move(old_link, link);
  round_.set_broken(link, std::nullopt);
  round_.add_peer(link, caller.peer);
  if (caller.local) {
    // The standby's own agent, which was connected through a link before.
    round_.set_local(link);
  } else {
    round_.leases().renew(link, now);
    round_.clock_of(link).heard(now, join.sent);
  }
  // Tells it that its own lease is renewed.
  actions.emplace_back(coordinator::Say{link, link::Heartbeat{.sent = join.sent}});
  actions.emplace_back(
      coordinator::Note{fmt::format("{} reconnected", name_of(*round_.find(link)))});
}

bool JobNodes::reject_claimant(LinkId holder, const JobTerms& terms, Actions& actions) {
  const Member* const member = round_.claims() == 0 ? nullptr : round_.find(holder);
  if (member == nullptr || member->claims || !member->join.node_rank) return false;
  const auto link = round_.claimant_of(*member->join.node_rank);
  if (!link) return false;
  const Member claimant = *round_.find(*link);
  round_.leave(*link);
  coordinator::refuse({*link, claimant.peer}, claimant.join.host,
                      seat_taken_text(terms, *member, claimant.join), actions);
  return true;
}

// The agent is identified by its number, which only its coordinator knows.
bool JobNodes::speaks_from(const link::WhoHosts& agent, const std::string& peer) {
  const auto link = round_.find_agent(
      link::Join{.host = agent.host, .pid = agent.pid, .agent = agent.agent}, peer);
  if (!link || round_.find(*link)->local) return false;
  round_.add_peer(*link, peer);
  return true;
}

std::vector<LinkId> JobNodes::nodes_of_host(const std::string& host) const {
  std::vector<LinkId> links;
  for (const auto& [link, member] : round_.members()) {
    const auto& further = member->further_peers;
    const bool is_its = is_host_of(host, member->join, member->peer) ||
                        std::ranges::find(further, host) != further.end();
    if (is_its) links.push_back(link);
  }
  return links;
}

std::vector<LinkId> JobNodes::nodes_called(const std::string& name) const {
  int rank = -1;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, rank);
  if (error == std::errc{} && rest == end) {
    for (const auto& [link, member] : round_.members()) {
      if (member->group_rank == GroupRank{rank}) return {link};
    }
  }
  return nodes_of_host(name);
}

std::optional<std::string> JobNodes::objection_to_evict(const std::vector<LinkId>& links,
                                                        int nodes_min, bool has_standby) const {
  std::size_t leave = 0;
  bool is_needed = false;
  for (const LinkId link : links) {
    const Member& member = *round_.find(link);
    if (member.local) {
      return fmt::format("{} hosts the coordinator and cannot be drained or excluded; {}",
                         name_of(member),
                         has_standby ? "to remove it, send SIGTERM to its cpprun, which "
                                       "transfers leadership to the standby"
                                     : "stop the job instead");
    }
    if (member.leaving) continue;
    ++leave;
    is_needed = is_needed || member.group_rank;
  }
  if (leave == 0) return fmt::format("{} is already leaving", name_of(*round_.find(links.front())));
  if (!is_needed) return std::nullopt;  // spares, and nodes that wait for a first round
  if (round_.phase() == Round::Phase::sealed && round_.count(Member::State::succeeded) > 0) {
    return "some nodes have finished and would have to repeat their work; wait for the end of the "
           "job, or stop it";
  }
  const std::size_t left = round_.staying() - leave;
  if (left >= static_cast<std::size_t>(nodes_min)) return std::nullopt;
  return fmt::format(
      "only {} would be left, but the job needs at least {}; start another node first",
      node_count_text(left), nodes_min);
}

std::vector<LinkId> JobNodes::evict(const std::vector<LinkId>& links, const std::string& why) {
  std::vector<LinkId> evicted;
  for (const LinkId link : links) {
    const Member& member = *round_.find(link);
    if (member.leaving) continue;
    evicted_nodes_.add(member.join, why);
    round_.mark_leaving(link, why);
    evicted.push_back(link);
  }
  return evicted;
}

void JobNodes::look(TimePoint now) {
  watched_until_ = now + watch_time;
}

Duration JobNodes::ask_for_stats(TimePoint now, LinkId link) {
  const bool watched = watched_until_ && now < *watched_until_;
  if (!watched || round_.phase() == Round::Phase::gathering) return {};
  const Duration pause = pause_between_looks(round_.size());
  auto& asked = round_.figures_of(link).asked;
  if (asked && now - *asked < pause) return {};
  asked = now;
  return std::min<Duration>(*watched_until_ - now + pause, link::watch_time_max);
}

}  // namespace cpprun
