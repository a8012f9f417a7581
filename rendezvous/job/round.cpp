// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "proto/link/bounds.h"
#include "rendezvous/job/bounds.h"

namespace cpprun {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Removes the digits at the front, and returns them without leading zeros.
std::string_view take_number(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

bool comes_before(const Candidate& a, const Candidate& b) {
  if (a.node_rank != b.node_rank) {
    if (a.node_rank && b.node_rank) return *a.node_rank < *b.node_rank;
    return a.node_rank.has_value();
  }
  if (a.previous != b.previous) {
    if (a.previous && b.previous) return *a.previous < *b.previous;
    return a.previous.has_value();
  }
  if (a.host != b.host) return natural_less(a.host, b.host);
  return a.pid < b.pid;
}

}  // namespace

bool natural_less(std::string_view left, std::string_view right) {
  const std::string_view left_whole = left;
  const std::string_view right_whole = right;
  while (!left.empty() && !right.empty()) {
    if (is_digit(left.front()) && is_digit(right.front())) {
      const std::string_view a = take_number(left);
      const std::string_view b = take_number(right);
      if (a.size() != b.size()) return a.size() < b.size();
      if (a != b) return a < b;
      continue;
    }
    if (left.front() != right.front()) return left.front() < right.front();
    left.remove_prefix(1);
    right.remove_prefix(1);
  }
  if (left.empty() != right.empty()) return left.empty();
  return left_whole < right_whole;  // equal but for leading zeros: any order, but a stable one
}

std::vector<std::size_t> seat_order(const std::vector<Candidate>& candidates) {
  std::vector<std::size_t> sorted(candidates.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i] = i;
  std::sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
    return comes_before(candidates[a], candidates[b]);
  });

  // If a requested seat does not exist, because there are fewer seats, requests only decide the
  // order. Otherwise the last nodes would fill the free seats, ahead of the others.
  const bool all_exist = std::ranges::all_of(candidates, [&](const Candidate& each) {
    return !each.node_rank || static_cast<std::size_t>(*each.node_rank) < candidates.size();
  });
  if (!all_exist) return sorted;

  // First the nodes that asked for a seat, then the others into the free seats, in order.
  std::vector<std::optional<std::size_t>> seats(candidates.size());
  std::vector<std::size_t> unseated;
  for (const std::size_t index : sorted) {
    const std::optional<int> wanted = candidates[index].node_rank;
    if (wanted && !seats[static_cast<std::size_t>(*wanted)]) {
      seats[static_cast<std::size_t>(*wanted)] = index;
    } else {
      unseated.push_back(index);
    }
  }
  std::vector<std::size_t> order;
  std::size_t next_unseated = 0;
  for (const auto& seat : seats) order.push_back(seat ? *seat : unseated[next_unseated++]);
  return order;
}

RankTable assign_ranks(const std::vector<NodeShape>& nodes_in_order) {
  RankTable table;
  std::map<std::string, int> role_sizes;
  for (const NodeShape& node : nodes_in_order) {
    int& role_size = role_sizes[node.role];
    table.nodes.push_back({.base = Rank{table.world_size}, .role_base = role_size});
    table.world_size += node.local_world_size;
    role_size += node.local_world_size;
  }
  for (std::size_t i = 0; i < nodes_in_order.size(); ++i) {
    table.nodes[i].role_world_size = role_sizes[nodes_in_order[i].role];
  }
  return table;
}

void ClockOffset::heard(TimePoint now, link::AgentTime sent, Duration round_trip) {
  if (samples_ == bounds::clock_samples) {
    previous_ = current_;
    current_ = {};
    samples_ = 0;
  }
  ++samples_;
  current_.lag = std::min(current_.lag, now.time_since_epoch() - Duration{sent});
  if (round_trip > Duration{}) current_.trip = std::min(current_.trip, round_trip);
}

std::optional<TimePoint> ClockOffset::by_coordinator(link::AgentTime moment) const {
  const auto known = ahead();
  if (!known) return std::nullopt;
  return TimePoint{Duration{moment} + *known};
}

std::optional<link::AgentTime> ClockOffset::by_agent(TimePoint moment) const {
  const auto known = ahead();
  if (!known) return std::nullopt;
  return std::chrono::duration_cast<link::AgentTime>(moment.time_since_epoch() - *known);
}

// By how much the coordinator's clock is ahead.
std::optional<Duration> ClockOffset::ahead() const {
  const Duration lag = std::min(current_.lag, previous_.lag);
  if (lag == unknown) return std::nullopt;
  const Duration trip = std::min(current_.trip, previous_.trip);
  const Duration one_way = trip == unknown ? Duration{} : trip / 2;
  return lag - one_way;
}

namespace {

// Between two reports of one node. Each report wakes the coordinator up, which costs 40 us, so a
// job that is looked at all the time may cause 200 a second: less than 1 % of a core. In a job of
// thousands of nodes the stats would then be too old. There many reports share one wake-up: those
// of ten thousand nodes may arrive within ten seconds, but no faster, because of the heartbeats.
constexpr Duration status_pause_min = std::chrono::seconds(2);
constexpr Duration status_pause_of_many = std::chrono::seconds(10);
constexpr int statuses_per_second = 200;
constexpr int statuses_per_second_max = 1000;

}  // namespace

void NodeStats::hear(TimePoint now, const link::Status& status, int local_world_size) {
  for (const link::WorkerStats& each : status.workers) {
    if (each.local_rank.value >= local_world_size) return;  // they come in order
    const auto at =
        std::ranges::lower_bound(workers, each.local_rank, {},
                                 [](const SeenWorker& seen) { return seen.figures.local_rank; });
    if (at != workers.end() && at->figures.local_rank == each.local_rank) {
      *at = {each, now};
    } else {
      workers.insert(at, {each, now});
    }
  }
}

Duration pause_between_looks(std::size_t nodes) {
  const Duration second = std::chrono::seconds(1);
  const Duration cheap = second / statuses_per_second * nodes;
  const Duration bearable = second / statuses_per_second_max * nodes;
  return std::max({status_pause_min, std::min(cheap, status_pause_of_many), bearable});
}

namespace {

std::size_t hash_of_agent(const std::string& host, int pid) {
  return std::hash<std::string>{}(host) ^ static_cast<std::size_t>(pid) * 0x9E3779B97F4A7C15;
}

}  // namespace

Round::Round(const Past& past, std::vector<std::pair<LinkId, Member>> members, Duration lease)
    : phase_(past.phase, steps),
      number_(past.number),
      world_size_(past.world_size),
      leases_(lease) {
  for (auto& [link, member] : members) {
    if (member.leaving) ++leaving_;
    if (!member.connected) ++away_;
    enter(link, std::move(member));
  }
  if (phase_ == Phase::sealed) remember_seats();
  admission_.follow(*this);
}

const Member* Round::find(LinkId link) const {
  const auto found = members_.find(link);
  return found == members_.end() ? nullptr : &found->second;
}

std::vector<std::pair<LinkId, const Member*>> Round::members() const {
  std::vector<std::pair<LinkId, const Member*>> sorted;
  sorted.reserve(members_.size());
  for (const auto& [link, member] : members_) sorted.emplace_back(link, &member);
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    const auto place = [](const auto& each) {
      const auto& seat = each.second->group_rank;
      return std::tuple{!seat, seat.value_or(GroupRank{}), each.first};
    };
    return place(a) < place(b);
  });
  return sorted;
}

void Round::tell_neighbours(Seats& seats) const {
  const auto local = std::find_if(seats.begin(), seats.end(),
                                  [&](const auto& each) { return members_.at(each.first).local; });
  const LinkId master = local == seats.end() ? seats.front().first : local->first;
  const auto other = std::find_if(seats.begin(), seats.end(),
                                  [&](const auto& each) { return each.first != master; });
  const auto of_master = addresses_of(master);
  const auto of_other =
      other == seats.end() ? std::vector<std::string>{} : addresses_of(other->first);
  for (auto& [link, sealed] : seats) sealed.neighbour = link == master ? of_other : of_master;
}

// Addresses at which the other nodes reach a member, and from which they see it connect. Loopback
// is omitted.
std::vector<std::string> Round::addresses_of(LinkId link) const {
  const Member& member = members_.at(link);
  std::vector<std::string> addresses;
  const bool tells = !member.local && !member.peer.starts_with("127.") && member.peer != "::1";
  if (tells) addresses.push_back(member.peer);
  for (const std::string& each : member.join.addresses) {
    if (addresses.size() == bounds::node_addresses_max) break;
    if (!tells || each != member.peer) addresses.push_back(each);
  }
  return addresses;
}

const Member* Round::local_member() const {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [](const auto& each) { return each.second.local; });
  return found == members_.end() ? nullptr : &found->second;
}

const Member* Round::holder_of(int node_rank) const {
  const auto [first, last] = by_node_rank_.equal_range(node_rank);
  for (auto at = first; at != last; ++at) {
    const Member& member = members_.at(at->second);
    if (!member.claims) return &member;
  }
  return nullptr;
}

std::optional<LinkId> Round::claimant_of(int node_rank) const {
  const auto [first, last] = by_node_rank_.equal_range(node_rank);
  for (auto at = first; at != last; ++at) {
    if (members_.at(at->second).claims) return at->second;
  }
  return std::nullopt;
}

std::optional<LinkId> Round::find_agent(const link::Join& join, const std::string& peer) const {
  const auto [first, last] = by_agent_.equal_range(hash_of_agent(join.host, join.pid));
  std::optional<LinkId> found;
  for (auto at = first; at != last; ++at) {
    const Member& member = members_.at(at->second);
    if (member.join.pid != join.pid || member.join.host != join.host) continue;
    if (member.join.agent != join.agent) continue;
    if (member.peer == peer) return at->second;
    found = at->second;
  }
  return found;
}

void Round::enter(LinkId link, Member member) {
  member.claims = member.join.node_rank && holder_of(*member.join.node_rank) != nullptr;
  if (member.claims) ++claims_;
  if (member.join.node_rank) by_node_rank_.emplace(*member.join.node_rank, link);
  by_agent_.emplace(hash_of_agent(member.join.host, member.join.pid), link);
  ++counts_[index_of(member.state)];
  if (!member.local) leases_.renew(link, member.since);
  const bool is_new = members_.emplace(link, std::move(member)).second;
  assert(is_new);
  (void)is_new;  // Only read by the assertion.
}

void Round::leave(LinkId link) {
  const auto found = members_.find(link);
  if (found == members_.end()) return;
  leases_.forget(link);
  forget_wanted_rank(link, found->second);
  --counts_[index_of(found->second.state)];
  if (found->second.leaving) --leaving_;
  if (!found->second.connected) --away_;
  if (found->second.claims) --claims_;
  forget_agent(link, found->second);
  const auto node_rank = found->second.join.node_rank;
  members_.erase(found);
  // The claimant of its node rank becomes the holder.
  const auto next_claimant = node_rank && holder_of(*node_rank) == nullptr
                                 ? claimant_of(*node_rank)
                                 : std::optional<LinkId>{};
  if (!next_claimant) return;
  members_.at(*next_claimant).claims = false;
  --claims_;
}

void Round::forget_agent(LinkId link, const Member& member) {
  const auto [first, last] =
      by_agent_.equal_range(hash_of_agent(member.join.host, member.join.pid));
  for (auto at = first; at != last; ++at) {
    if (at->second != link) continue;
    by_agent_.erase(at);
    return;
  }
}

void Round::forget_wanted_rank(LinkId link, const Member& member) {
  if (!member.join.node_rank) return;
  const auto [first, last] = by_node_rank_.equal_range(*member.join.node_rank);
  for (auto at = first; at != last; ++at) {
    if (at->second != link) continue;
    by_node_rank_.erase(at);
    return;
  }
}

void Round::set_state(LinkId link, Member::State state, TimePoint now) {
  Member& member = members_.at(link);
  --counts_[index_of(member.state)];
  ++counts_[index_of(state)];
  member.state = state;
  member.since = now;
}

void Round::mark_leaving(LinkId link, std::string dismissed) {
  Member& member = members_.at(link);
  member.dismissed = std::move(dismissed);
  if (!std::exchange(member.leaving, true)) ++leaving_;
}

void Round::set_broken(LinkId link, std::optional<TimePoint> broke_at) {
  Member& member = members_.at(link);
  if (!member.connected) --away_;
  if (broke_at) ++away_;
  member.connected = !broke_at;
  member.broke_at = broke_at;
}

void Round::ask_upgrade(LinkId link, std::uint64_t number) {
  Member& member = members_.at(link);
  member.upgrade_asked = number;
  member.upgraded.reset();
}

void Round::set_upgraded(LinkId link, const link::Upgraded& upgraded) {
  Member& member = members_.at(link);
  if (upgraded.number >= member.upgrade_asked) member.upgraded = upgraded;
}

void Round::set_local(LinkId link) {
  members_.at(link).local = true;
  leases_.forget(link);
}

void Round::add_peer(LinkId link, const std::string& peer) {
  Member& member = members_.at(link);
  auto& further = member.further_peers;
  const bool known =
      member.peer == peer || std::find(further.begin(), further.end(), peer) != further.end();
  if (known || further.size() == bounds::node_addresses_max) return;
  further.push_back(peer);
  admission_.follow(*this);
}

void Round::move(LinkId from, LinkId to) {
  auto node = members_.extract(from);
  node.key() = to;
  forget_agent(from, node.mapped());
  by_agent_.emplace(hash_of_agent(node.mapped().join.host, node.mapped().join.pid), to);
  forget_wanted_rank(from, node.mapped());
  if (const auto wanted = node.mapped().join.node_rank) by_node_rank_.emplace(*wanted, to);
  members_.insert(std::move(node));
  std::ranges::replace(front_, from, to);
  leases_.move(from, to);
}

// Survivors first, because their workers' data is on their machines; then in order of arrival.
std::vector<LinkId> Round::chosen(int seats_max) const {
  std::vector<std::pair<bool, LinkId>> sorted;  // false, for survivors, sorts first
  for (const auto& [link, member] : members_) sorted.emplace_back(!member.group_rank, link);
  std::sort(sorted.begin(), sorted.end());
  sorted.resize(std::min(sorted.size(), static_cast<std::size_t>(seats_max)));
  std::vector<LinkId> links;
  for (const auto& [is_new, link] : sorted) links.push_back(link);
  return links;
}

Round::Seats Round::seal(int seats_max, TimePoint now) {
  assert(phase_ == Phase::gathering && claims_ == 0);
  phase_.become(Phase::sealed);
  ++number_.value;

  const std::vector<LinkId> links = chosen(seats_max);
  std::vector<Candidate> candidates;
  for (const LinkId link : links) {
    const Member& member = members_.at(link);
    candidates.push_back({.node_rank = member.join.node_rank,
                          .previous = member.group_rank,
                          .host = member.join.host,
                          .pid = member.join.pid});
  }
  const std::vector<std::size_t> order = seat_order(candidates);
  std::vector<NodeShape> shapes;
  for (const std::size_t index : order) {
    const link::Join& join = members_.at(links[index]).join;
    shapes.push_back({.local_world_size = join.local_world_size, .role = join.role});
  }
  const RankTable table = assign_ranks(shapes);
  world_size_ = table.world_size;

  Seats seats;
  for (std::size_t seat = 0; seat < order.size(); ++seat) {
    const LinkId link = links[order[seat]];
    Member& member = members_.at(link);
    member.group_rank = GroupRank{static_cast<int>(seat)};
    member.ranks = table.nodes[seat];
    member.figures = {};
    set_state(link, Member::State::running, now);
    seats.emplace_back(link, this->seat(member, order.size()));
  }
  remember_seats();
  admission_.follow(*this);
  for (const auto& [link, sealed] : seats) {
    if (!members_.at(link).local) leases_.renew(link, now);
  }
  return seats;
}

link::Sealed Round::seat(const Member& member, std::size_t nodes) const {
  return {.round = number_,
          .group_rank = *member.group_rank,
          .group_world_size = static_cast<int>(nodes),
          .base_rank = member.ranks.base,
          .world_size = world_size_,
          .role_base_rank = member.ranks.role_base,
          .role_world_size = member.ranks.role_world_size,
          .captures_timeouts = true};
}

std::optional<link::Sealed> Round::seat_of(LinkId link) const {
  assert(phase_ == Phase::sealed);
  if (seated() != seats_) return std::nullopt;
  link::Sealed sealed = seat(members_.at(link), seats_);
  const bool is_master = front_.front() == link;
  if (!is_master || front_.size() > 1) sealed.neighbour = addresses_of(front_[is_master ? 1 : 0]);
  return sealed;
}

// Computed once for all calls of seat_of(): many nodes come back at the same time.
void Round::remember_seats() {
  const auto comes_before = [](const Member& left, const Member& right) {
    return std::pair(!left.local, *left.group_rank) < std::pair(!right.local, *right.group_rank);
  };
  int ranks = 0;
  front_.clear();
  for (const auto& [link, member] : members_) {
    if (member.state == Member::State::waiting) continue;
    ranks += member.join.local_world_size;
    const auto place = std::ranges::find_if(
        front_, [&](LinkId other) { return comes_before(member, members_.at(other)); });
    front_.insert(place, link);
    if (front_.size() > 2) front_.pop_back();
  }
  seats_ = ranks == world_size_ ? seated() : 0;
}

void Round::break_up() {
  assert(phase_ == Phase::sealed);
  phase_.become(Phase::draining);
}

void Round::gather_again(TimePoint now) {
  assert(phase_ == Phase::draining && count(Member::State::drained) == seated());
  phase_.become(Phase::gathering);
  for (auto& [link, member] : members_) {
    if (member.state != Member::State::waiting) member.since = now;
    member.state = Member::State::waiting;
  }
  counts_ = {};
  counts_[index_of(Member::State::waiting)] = members_.size();
}

std::optional<std::string> Round::check() const {
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
    if (member.claims && member.state != Member::State::waiting)
      return "a node claims a seat although it already has one";
    if (member.connected == member.broke_at.has_value())
      return "a link is both connected and broken";
    if (member.state == Member::State::waiting) continue;
    if (!member.group_rank) return fmt::format("{} has no number", member.join.host);
    if (!seats.insert(*member.group_rank).second) {
      return fmt::format("two nodes have the number {}", member.group_rank->value);
    }
  }
  if (counts != counts_ || leaving != leaving_ || away != away_ || claims != claims_)
    return "its members are miscounted";
  if (phase_ == Phase::gathering && seated() > 0)
    return "the round is gathering, but a node has a seat already";
  if (phase_ == Phase::sealed && count(Member::State::drained) > 0)
    return "a node has drained unasked";
  return std::nullopt;
}

std::optional<std::string> Round::check_leases() const {
  for (const auto& [link, member] : members()) {
    if (member->connected && !member->local && !leases_.watches(link)) {
      return fmt::format("no heartbeat timeout is set for {}", name_of(*member));
    }
    const bool is_in = phase_ == Phase::sealed && member->state != Member::State::waiting;
    if (is_in && !admits(member->peer)) {
      return fmt::format("{} may not use the store of its round", name_of(*member));
    }
  }
  return std::nullopt;
}

std::string Round::who_is_missing(int nodes_wanted) const {
  std::string text = fmt::format("{} of {} nodes have joined", members_.size(), nodes_wanted);
  std::string missing;
  std::size_t named = 0;
  // Missing ranks are known only if every node has given its rank.
  const bool all_told = by_node_rank_.size() == members_.size();
  for (int node_rank = 0; all_told && node_rank < nodes_wanted; ++node_rank) {
    if (by_node_rank_.contains(node_rank)) continue;
    if (named == bounds::nodes_named_max) return text + "; missing: " + missing + " and others";
    missing += fmt::format("{}node rank {}", named == 0 ? "" : ", ", node_rank);
    ++named;
  }
  return missing.empty() ? text : text + "; missing: " + missing;
}

template <class Predicate>
std::string Round::names_of(Predicate&& which) const {
  std::vector<const Member*> chosen;
  for (const auto& [link, member] : members_) {
    if (which(member)) chosen.push_back(&member);
  }
  std::sort(chosen.begin(), chosen.end(), [](const Member* a, const Member* b) {
    return std::tie(a->group_rank, a->join.host) < std::tie(b->group_rank, b->join.host);
  });
  std::string text;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (i == bounds::nodes_named_max) return text + " and others";
    text += (i == 0 ? "" : ", ") + name_of(*chosen[i]);
  }
  return text;
}

std::string Round::who_is(Member::State state) const {
  return names_of([state](const Member& member) { return member.state == state; });
}

std::string Round::who_is_away() const {
  return names_of([](const Member& member) { return !member.connected; });
}

std::string Round::who_is_here() const {
  return size() == 0 ? "none" : names_of([](const Member&) { return true; });
}

std::string name_of(const Member& member) {
  if (!member.group_rank) return member.join.host;
  return fmt::format("node {} on {}", member.group_rank->value, member.join.host);
}

bool LastCall::may_seal(TimePoint now, std::size_t here) {
  if (here < seats_.min) {
    over_at_.reset();
    return false;
  }
  if (here >= seats_.max) return true;
  if (!over_at_) over_at_ = now + seals_after_;
  return *over_at_ <= now;
}

bool LastCall::may_grow(TimePoint now, std::size_t seated, std::size_t waiting) {
  if (waiting == 0 || seated >= seats_.max) {
    over_at_.reset();
    return false;
  }
  if (!over_at_) over_at_ = now + length_;
  return seated + waiting >= seats_.max || *over_at_ <= now;
}

namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace

void Admission::follow(const Round& round) {
  admitted_.clear();
  admits_loopback_ = false;
  for (const auto& [link, each] : round.members()) {
    const Member& member = *each;
    if (member.state == Member::State::waiting) continue;
    const auto& further = member.further_peers;
    const bool is_here = member.local || is_loopback(member.peer) ||
                         std::any_of(further.begin(), further.end(), is_loopback);
    if (is_here) admits_loopback_ = true;
    admitted_.insert(member.peer);
    admitted_.insert(member.further_peers.begin(), member.further_peers.end());
    // The coordinator's own process is trusted about itself.
    if (!member.local) continue;
    admitted_.insert(member.join.addresses.begin(), member.join.addresses.end());
  }
}

Result<void> Admission::check(const std::string& address) const {
  if (is_loopback(address) ? admits_loopback_ : admitted_.contains(address)) return {};
  return failure(
      "it does not come from the address of a node in the current round; use the same IP address, "
      "not a name, for the master on every node");
}

}  // namespace cpprun
