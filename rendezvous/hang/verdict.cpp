// SPDX-License-Identifier: BSD-3-Clause
// Ranks wait for each other: a rank that is pending in an operation waits for all ranks that have
// not arrived at it. Followed to its end, this leads to a rank that does not wait (the culprit), to
// a cycle (opposite order), or to an operation at which all ranks have arrived (a mismatch, or the
// network). Ranks without a flight record are judged by what they do.
#include "rendezvous/hang/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace cpprun::hang {

namespace {

using Kind = Verdict::Kind;

// Numbers of one group that are looked at. More tell nothing new, since the lowest ones count.
constexpr std::size_t numbers_max = 8;
// Ranks of a cycle that a sentence names.
constexpr std::size_t cycle_named_max = 4;

struct KindText {
  std::string_view name;  // for JSON
  std::string_view hint;
};
// In the order of Kind.
constexpr std::array kind_texts = {
    KindText{"stopped",
             "find out what stopped it (SIGSTOP, a debugger); kill -CONT PID resumes a process"},
    KindText{"disk",
             "see dmesg on that host, check its mounts, and exclude it: cpprunctl exclude HOST"},
    KindText{"missing",
             "read the stack of that rank: a data loader, a lock, or a branch that depends on the "
             "rank"},
    KindText{"mismatch",
             "compare both call sites: all ranks must call the same operations, with equal shapes"},
    KindText{"opposite_order", "call the operations in the same order on all ranks"},
    KindText{"exited", "give all ranks the same number of batches (drop_last=True), or use join()"},
    KindText{"odd_one_out",
             "read the stack of that rank; it is a guess, because no operation is "
             "known"},
    KindText{"all_alike",
             "check the network and the devices: NCCL_DEBUG=INFO, nvidia-smi, cpprunctl doctor "
             "--hosts, *_SOCKET_IFNAME"},
    KindText{"unknown", "use --probe=on, or install py-spy, to make the stacks readable"},
};
static_assert(kind_texts.size() == static_cast<std::size_t>(Kind::unknown) + 1);

// An operation that ranks wait in.
struct Operation {
  std::string name = {};  // "all_reduce"
  std::string group = {};
  std::int64_t number = 0;
  std::optional<Peer> peer = {};  // of a point-to-point operation, as ranks of the job
  RankSet waiting = {};
  RankSet missing = {};  // have not arrived, and are not pending in this group
  std::vector<const GroupPosition*> variants = {};
};

struct Group {
  std::string_view name;
  RankSet members;  // empty: unknown
  std::vector<const GroupPosition*> collectives;
  std::vector<const GroupPosition*> peers;  // pending point-to-point operations
};

// Whether all ranks must have inputs of the same shape. Only the root of a scatter has an input,
// and in all_to_all each rank may send as much as it likes.
bool has_equal_shapes(const Position& at) {
  return !at.shape.empty() && at.operation.find("to_all") == std::string::npos &&
         at.operation.find("alltoall") == std::string::npos;
}

RankSet without(RankSet ranks, const RankSet& others) {
  ranks.remove(others);
  return ranks;
}

// "rank 7", "ranks 3,5", or "1250 ranks (0-1249)" for many.
std::string named(const RankSet& ranks) {
  const std::size_t count = ranks.count();
  if (count == 1) return fmt::format("rank {}", ranks.to_text());
  if (count == 2) {
    return fmt::format("ranks {} and {}", ranks.first().value, ranks.last().value);
  }
  if (ranks.is_one_range()) return fmt::format("ranks {}", ranks.to_text());
  return fmt::format("{} ranks ({})", count, ranks.to_text());
}
// For ranks that need no name: "31 ranks", "rank 0".
std::string counted(const RankSet& ranks) {
  return ranks.count() == 1 ? named(ranks) : fmt::format("{} ranks", ranks.count());
}
std::string_view verb(const RankSet& ranks, std::string_view one, std::string_view many) {
  return ranks.count() == 1 ? one : many;
}

// "all_reduce number 12 of default_pg".
std::string title_of(const Operation& operation) {
  if (operation.peer) {
    return fmt::format("{} rank {} ({})", operation.peer->receives ? "recv from" : "send to",
                       operation.peer->other.value, operation.group);
  }
  return fmt::format("{} number {} of {}", operation.name, operation.number, operation.group);
}

class Judge {
 public:
  Judge(const Evidence& evidence, int world_size);
  Verdict verdict() const;

 private:
  void index();
  std::vector<Group> groups() const;
  void add_collectives(const Group& group);
  void add_peers(const std::vector<Group>& groups);
  void connect();

  // Each gives a verdict if its rule applies.
  std::optional<Verdict> stopped() const;
  std::optional<Verdict> exited() const;
  std::optional<Verdict> missing(bool (Judge::*is_culprit)(Rank) const) const;
  std::optional<Verdict> cycle() const;
  std::optional<Verdict> mismatch() const;
  std::optional<Verdict> ahead() const;
  std::optional<Verdict> outside() const;
  std::optional<Verdict> unread() const;
  std::optional<Verdict> complete() const;
  Verdict by_clusters() const;

  // Calls `use` with each of those ranks that exists.
  void each(const RankSet& ranks, const auto& use) const {
    ranks.each_range([&](int first, int last) {
      for (int rank = first; rank <= last && rank < world_size_; ++rank) use(Rank{rank});
    });
  }
  bool waits_nowhere(Rank rank) const { return waits_of(rank).empty(); }
  bool is_elsewhere(Rank rank) const;
  bool does_something_else(Rank rank) const;

  const std::vector<std::size_t>& waits_of(Rank rank) const;
  const Cluster* cluster_of(Rank rank) const;
  std::string acts(const RankSet& ranks) const;
  std::string site_of(Rank rank) const;
  std::string state_unknown(const RankSet& ranks) const;
  std::string waiting_text(bool continues) const;
  std::string unread_reason(Rank rank) const;
  std::string cycle_text(const std::vector<std::pair<std::size_t, Rank>>& path) const;

  const Evidence& evidence_;
  int world_size_;
  std::vector<Operation> operations_;
  std::vector<std::vector<std::size_t>> waits_;  // by rank: the operations that it waits in
  std::vector<const Cluster*> clusters_;         // by rank
  RankSet placed_;                               // ranks with a position in any group
  RankSet pending_;                              // ranks that wait in any operation
  RankSet in_collective_;                        // by what they do
  RankSet gone_;
};

Judge::Judge(const Evidence& evidence, int world_size)
    : evidence_(evidence),
      world_size_(world_size),
      waits_(static_cast<std::size_t>(std::max(world_size, 0))),
      clusters_(waits_.size(), nullptr) {
  index();
  const std::vector<Group> all = groups();
  for (const auto& group : all) add_collectives(group);
  add_peers(all);
  connect();
}

void Judge::index() {
  for (const auto& cluster : evidence_.clusters) {
    each(cluster.ranks,
         [&](Rank rank) { clusters_[static_cast<std::size_t>(rank.value)] = &cluster; });
    if (cluster.activity == Activity::collective) in_collective_.add(cluster.ranks);
    if (cluster.activity == Activity::exited) gone_.add(cluster.ranks);
  }
  for (const auto& position : evidence_.positions) placed_.add(position.ranks);
}

std::vector<Group> Judge::groups() const {
  std::map<std::string_view, Group> found;
  for (const auto& position : evidence_.positions) {
    const std::string_view name = position.at.group;
    Group& group = found[name];
    group.name = name;
    if (group.members.empty()) {
      group.members = position.at.members.common_with(RankSet::all(world_size_));
    }
    if (!peer_of(position.at.operation)) {
      group.collectives.push_back(&position);
    } else if (position.at.is_pending) {
      group.peers.push_back(&position);
    }
  }
  if (const auto all = found.find("default_pg"); all != found.end()) {
    all->second.members = RankSet::all(world_size_);
  }
  std::vector<Group> groups;
  for (auto& [name, group] : found) groups.push_back(std::move(group));
  return groups;
}

void Judge::add_collectives(const Group& group) {
  std::map<std::int64_t, std::vector<const GroupPosition*>> pending;
  std::vector<const GroupPosition*> done;
  RankSet known;
  for (const auto* position : group.collectives) {
    known.add(position->ranks);
    if (position->at.is_pending) {
      pending[position->at.sequence].push_back(position);
    } else {
      done.push_back(position);
    }
  }
  std::sort(done.begin(), done.end(),
            [](const auto* left, const auto* right) { return left->at.last() < right->at.last(); });
  // Members that have enqueued nothing in this group, but have in others.
  RankSet missing = without(group.members.common_with(placed_), known);
  auto next = done.begin();
  std::size_t numbers = 0;
  for (auto& [number, variants] : pending) {
    if (++numbers > numbers_max) break;
    for (; next != done.end() && (*next)->at.last() < number; ++next) missing.add((*next)->ranks);
    Operation operation{.group = std::string(group.name), .number = number, .missing = missing};
    std::sort(variants.begin(), variants.end(), [](const auto* left, const auto* right) {
      return left->ranks.count() > right->ranks.count();
    });
    operation.name = variants.front()->at.operation;
    for (const auto* variant : variants) operation.waiting.add(variant->ranks);
    operation.variants = std::move(variants);
    operations_.push_back(std::move(operation));
  }
}

void Judge::add_peers(const std::vector<Group>& groups) {
  std::set<std::tuple<std::string_view, Rank, Rank, bool>> pending;
  const std::size_t first = operations_.size();
  for (const auto& group : groups) {
    std::vector<Rank> ranks;  // of the job, by rank of the group
    each(group.members, [&](Rank rank) { ranks.push_back(rank); });
    for (const auto* position : group.peers) {
      auto peer = *peer_of(position->at.operation);
      Operation operation{.name = peer.receives ? "recv" : "send",
                          .group = std::string(group.name),
                          .number = position->at.sequence,
                          .waiting = position->ranks,
                          .variants = {position}};
      const auto other = static_cast<std::size_t>(peer.other.value);
      if (other < ranks.size()) {
        peer = {position->ranks.first(), ranks[other], peer.receives};
        pending.insert({group.name, peer.self, peer.other, peer.receives});
        operation.peer = peer;
        operation.missing = RankSet(peer.other);
      }
      operations_.push_back(std::move(operation));
    }
  }
  for (std::size_t at = first; at < operations_.size(); ++at) {
    Operation& operation = operations_[at];
    if (!operation.peer) continue;
    const auto& [self, other, receives] = *operation.peer;
    if (pending.contains({operation.group, other, self, !receives})) operation.missing = {};
  }
}

void Judge::connect() {
  for (std::size_t at = 0; at < operations_.size(); ++at) {
    pending_.add(operations_[at].waiting);
    each(operations_[at].waiting,
         [&](Rank rank) { waits_[static_cast<std::size_t>(rank.value)].push_back(at); });
  }
}

const std::vector<std::size_t>& Judge::waits_of(Rank rank) const {
  static const std::vector<std::size_t> none;
  const auto at = static_cast<std::size_t>(rank.value);
  return at < waits_.size() ? waits_[at] : none;
}

const Cluster* Judge::cluster_of(Rank rank) const {
  const auto at = static_cast<std::size_t>(rank.value);
  return at < clusters_.size() ? clusters_[at] : nullptr;
}

// It has operations that are pending, but certainly does not wait for them.
bool Judge::is_elsewhere(Rank rank) const {
  const Cluster* const cluster = cluster_of(rank);
  if (cluster == nullptr) return false;
  const Activity activity = cluster->activity;
  return activity == Activity::gil || activity == Activity::child ||
         activity == Activity::reading || activity == Activity::sleeping;
}

// The same, but it may also spin or block in a library while it waits for them.
bool Judge::does_something_else(Rank rank) const {
  const Cluster* const cluster = cluster_of(rank);
  return cluster != nullptr && cluster->activity < Activity::collective;
}

// What those ranks do: "rank 3 sleeps in g (x.py:2); rank 4 is busy in f (x.py:1)".
std::string Judge::acts(const RankSet& ranks) const {
  std::map<const Cluster*, RankSet> by_cluster;
  each(ranks, [&](Rank rank) { by_cluster[cluster_of(rank)].add(rank); });
  std::vector<std::pair<RankSet, const Cluster*>> parts;
  for (auto& [cluster, some] : by_cluster) parts.emplace_back(std::move(some), cluster);
  std::sort(parts.begin(), parts.end(), [](const auto& left, const auto& right) {
    return left.first.first() < right.first.first();
  });
  std::string text;
  std::size_t shown = 0;
  for (const auto& [some, cluster] : parts) {
    if (++shown > 3) {
      const std::size_t left = parts.size() - 3;
      text += fmt::format("; and {} more group{}", left, left == 1 ? "" : "s");
      break;
    }
    if (!text.empty()) text += "; ";
    const bool is_known = cluster != nullptr && (cluster->activity != Activity::unknown ||
                                                 user_frame(cluster->stack) != nullptr);
    text += is_known ? fmt::format("{} {}", named(some), clause_of(*cluster, some.count() != 1))
                     : state_unknown(some);
  }
  return text;
}

std::string Judge::site_of(Rank rank) const {
  const Cluster* const cluster = cluster_of(rank);
  return cluster == nullptr ? std::string() : call_site(cluster->stack);
}

// "the state of rank 3 is unknown (stack: no response)".
std::string Judge::state_unknown(const RankSet& ranks) const {
  const std::string reason = unread_reason(ranks.first());
  return fmt::format("the state of {} is unknown{}", named(ranks),
                     reason.empty() ? "" : fmt::format(" ({})", reason));
}

std::string Judge::unread_reason(Rank rank) const {
  for (const auto& [reason, ranks] : evidence_.unread) {
    if (ranks.has(rank)) return reason;
  }
  return {};
}

// "3 ranks wait in all_reduce number 4 of default_pg", or in which operation most of them wait.
// `continues`: the sentence goes on without another punctuation mark.
std::string Judge::waiting_text(bool continues) const {
  const auto most = std::max_element(operations_.begin(), operations_.end(),
                                     [](const Operation& left, const Operation& right) {
                                       return left.waiting.count() < right.waiting.count();
                                     });
  if (most != operations_.end() && most->waiting != pending_) {
    return fmt::format("{} wait in communication operations, such as {}{}", counted(pending_),
                       title_of(*most), continues ? "," : "");
  }
  if (most != operations_.end()) {
    return fmt::format("{} {} in {}", counted(most->waiting), verb(most->waiting, "waits", "wait"),
                       title_of(*most));
  }
  if (in_collective_.empty()) return {};
  for (const auto& cluster : evidence_.clusters) {
    if (cluster.activity == Activity::collective && cluster.ranks == in_collective_) {
      return fmt::format("{} {}", counted(in_collective_),
                         clause_of(cluster, in_collective_.count() != 1));
    }
  }
  return fmt::format("{} {} in collectives", counted(in_collective_),
                     verb(in_collective_, "waits", "wait"));
}

std::optional<Verdict> Judge::stopped() const {
  for (const Activity activity : {Activity::stopped, Activity::disk}) {
    RankSet ranks;
    for (const auto& cluster : evidence_.clusters) {
      if (cluster.activity == activity) ranks.add(cluster.ranks);
    }
    if (ranks.empty()) continue;
    const Cluster* const cluster = cluster_of(ranks.first());
    if (cluster == nullptr) continue;
    const bool is_alike = cluster->ranks == ranks;
    std::string sentence =
        is_alike ? fmt::format("{} {}", named(ranks), clause_of(*cluster, ranks.count() != 1))
                 : acts(ranks);
    if (const std::string waiting = waiting_text(/*continues=*/false); !waiting.empty()) {
      sentence += fmt::format("; {}", waiting);
    }
    return Verdict{.kind = activity == Activity::stopped ? Kind::stopped : Kind::disk,
                   .sentence = std::move(sentence),
                   .rank = ranks.first()};
  }
  return std::nullopt;
}

std::optional<Verdict> Judge::exited() const {
  if (gone_.empty() || cluster_of(gone_.first()) == nullptr) return std::nullopt;
  const std::string waiting = waiting_text(/*continues=*/false);
  if (waiting.empty()) return std::nullopt;
  return Verdict{.kind = Kind::exited,
                 .sentence = fmt::format("{} {} exited; {}", named(gone_),
                                         verb(gone_, "has", "have"), waiting),
                 .rank = gone_.first()};
}

std::optional<Verdict> Judge::missing(bool (Judge::*is_culprit)(Rank) const) const {
  const Operation* best = nullptr;
  RankSet best_culprits;
  for (const auto& operation : operations_) {
    if (best != nullptr && best->waiting.count() >= operation.waiting.count()) continue;
    RankSet culprits;
    each(operation.missing, [&](Rank rank) {
      if ((this->*is_culprit)(rank)) culprits.add(rank);
    });
    // Those that wait for other ranks as well, in an operation that was not recorded, come second.
    if (auto idle = without(culprits, in_collective_); !idle.empty()) culprits = std::move(idle);
    if (culprits.empty()) continue;
    best = &operation;
    best_culprits = std::move(culprits);
  }
  if (best == nullptr) return std::nullopt;
  const std::string who = named(best_culprits);
  std::string sentence;
  if (best->peer) {
    sentence = fmt::format("rank {} waits in {}, but {} has not {}; {}", best->peer->self.value,
                           title_of(*best), who, best->peer->receives ? "sent" : "received",
                           acts(best_culprits));
  } else {
    sentence = fmt::format("{} never reached {}, where {} {}; {}", who, title_of(*best),
                           counted(best->waiting), verb(best->waiting, "waits", "wait"),
                           acts(best_culprits));
  }
  return Verdict{
      .kind = Kind::missing, .sentence = std::move(sentence), .rank = best_culprits.first()};
}

// Operations and, of each, the rank that waits in it and is missing in the one before.
std::string Judge::cycle_text(const std::vector<std::pair<std::size_t, Rank>>& path) const {
  const bool is_peers = std::all_of(path.begin(), path.end(), [&](const auto& step) {
    return operations_[step.first].peer.has_value();
  });
  std::string text = "deadlock: ";
  for (std::size_t at = 0; at < path.size(); ++at) {
    const auto& [number, rank] = path[at];
    if (at == cycle_named_max) {
      text += fmt::format("and so on through {} operations; ", path.size());
      break;
    }
    const Operation& operation = operations_[number];
    const Rank next = path[(at + 1) % path.size()].second;
    const std::string title = operation.peer
                                  ? fmt::format("{} of {}", operation.name, operation.group)
                                  : title_of(operation);
    text += fmt::format("rank {} waits for rank {} in {}{}; ", rank.value, next.value, title,
                        site_of(rank));
  }
  const std::string_view why = is_peers           ? "each waits for the other to act first"
                               : path.size() == 2 ? "they call these in opposite order"
                                                  : "they call these in different orders";
  return text + std::string(why);
}

std::optional<Verdict> Judge::cycle() const {
  // Depth first, without recursion. `via` is the rank through which an operation was reached.
  enum class Color { white, grey, black };
  struct Step {
    std::size_t operation;
    Rank via;
    std::vector<std::pair<std::size_t, Rank>> next;
  };
  const auto successors = [&](std::size_t at) {
    std::map<std::size_t, Rank> next;
    each(operations_[at].missing, [&](Rank rank) {
      for (const std::size_t other : waits_of(rank)) next.emplace(other, rank);
    });
    return std::vector<std::pair<std::size_t, Rank>>(next.begin(), next.end());
  };
  std::vector<Color> colors(operations_.size(), Color::white);
  for (std::size_t root = 0; root < operations_.size(); ++root) {
    if (colors[root] != Color::white) continue;
    std::vector<Step> path;
    path.push_back({root, {}, successors(root)});
    colors[root] = Color::grey;
    while (!path.empty()) {
      if (path.back().next.empty()) {
        colors[path.back().operation] = Color::black;
        path.pop_back();
        continue;
      }
      const auto [other, via] = path.back().next.back();
      path.back().next.pop_back();
      if (colors[other] == Color::black) continue;
      if (colors[other] == Color::white) {
        colors[other] = Color::grey;
        path.push_back({other, via, successors(other)});
        continue;
      }
      std::vector<std::pair<std::size_t, Rank>> steps;
      for (const auto& step : path) {
        if (steps.empty() && step.operation != other) continue;
        steps.emplace_back(step.operation, step.via);
      }
      steps.front().second = via;
      if (steps.size() < 2) continue;
      std::rotate(steps.begin(),
                  std::min_element(steps.begin(), steps.end(),
                                   [](const auto& left, const auto& right) {
                                     return left.second < right.second;
                                   }),
                  steps.end());
      return Verdict{.kind = Kind::opposite_order,
                     .sentence = cycle_text(steps),
                     .rank = steps.front().second};
    }
  }
  return std::nullopt;
}

std::optional<Verdict> Judge::mismatch() const {
  for (const auto& operation : operations_) {
    if (operation.peer || operation.variants.size() < 2) continue;
    std::map<std::string, RankSet> by_name;
    std::map<std::string, RankSet> by_shape;
    for (const auto* variant : operation.variants) {
      by_name[variant->at.operation].add(variant->ranks);
      if (has_equal_shapes(variant->at)) by_shape[variant->at.shape].add(variant->ranks);
    }
    const bool by_operation = by_name.size() > 1;
    const auto& sides = by_operation ? by_name : by_shape;
    if (sides.size() < 2) continue;
    std::vector<std::pair<RankSet, std::string>> sorted;
    for (const auto& [what, ranks] : sides) sorted.emplace_back(ranks, what);
    std::sort(sorted.begin(), sorted.end(), [](const auto& left, const auto& right) {
      const auto key = [](const RankSet& ranks) {
        return std::pair(ranks.count(), -ranks.first().value);
      };
      return key(left.first) < key(right.first);
    });
    const auto& [odd, what] = sorted.front();
    const auto& [most, usual] = sorted.back();
    const std::string site = site_of(odd.first());
    const std::string sentence =
        by_operation
            ? fmt::format(
                  "ranks called different operations at position {} of {}: {} called {}{}, {} "
                  "called {}{}",
                  operation.number, operation.group, named(odd), what, site, counted(most), usual,
                  site_of(most.first()))
            : fmt::format("shapes differ in {}: {} {} {}{}, {} {} {}", title_of(operation),
                          named(odd), verb(odd, "has", "have"), what, site, counted(most),
                          verb(most, "has", "have"), usual);
    return Verdict{.kind = Kind::mismatch, .sentence = sentence, .rank = odd.first()};
  }
  return std::nullopt;
}

// Ranks of a group that wait in operations with different numbers: some have left an earlier one.
std::optional<Verdict> Judge::ahead() const {
  for (std::size_t at = 1; at < operations_.size(); ++at) {
    const Operation& early = operations_[at - 1];
    const Operation& late = operations_[at];
    if (early.peer || late.peer || early.group != late.group) continue;
    const bool is_early_odd = early.waiting.count() < late.waiting.count();
    const Operation& odd = is_early_odd ? early : late;
    const Operation& most = is_early_odd ? late : early;
    return Verdict{
        .kind = Kind::mismatch,
        .sentence = fmt::format("{} {} {} in {} number {} of {}{}; {} {} {} in {} number {}{}",
                                named(odd.waiting), verb(odd.waiting, "is", "are"),
                                is_early_odd ? "still" : "already", odd.name, odd.number, odd.group,
                                site_of(odd.waiting.first()), counted(most.waiting),
                                verb(most.waiting, "is", "are"), is_early_odd ? "already" : "still",
                                most.name, most.number, site_of(most.waiting.first())),
        .rank = odd.waiting.first()};
  }
  return std::nullopt;
}

// Ranks wait in collectives, and others do something else. Their group is not known.
std::optional<Verdict> Judge::outside() const {
  RankSet waiting = pending_;
  waiting.add(in_collective_);
  if (waiting.empty()) return std::nullopt;
  for (const auto& cluster : evidence_.clusters) {
    if (cluster.activity >= Activity::collective) continue;
    const RankSet ranks = without(cluster.ranks, waiting);
    if (ranks.empty() || cluster_of(ranks.first()) == nullptr) continue;
    return Verdict{.kind = pending_.empty() ? Kind::odd_one_out : Kind::missing,
                   .sentence = fmt::format("{} for {}, which {}", waiting_text(/*continues=*/true),
                                           named(ranks), clause_of(cluster, ranks.count() != 1)),
                   .rank = ranks.first()};
  }
  return std::nullopt;
}

// Ranks wait, and nothing is known about others.
std::optional<Verdict> Judge::unread() const {
  RankSet ranks = RankSet::all(world_size_);
  for (const auto& cluster : evidence_.clusters) {
    if (cluster.activity != Activity::unknown) ranks.remove(cluster.ranks);
  }
  ranks.remove(pending_);
  if (ranks.empty()) return std::nullopt;
  const std::string waiting = waiting_text(/*continues=*/false);
  if (waiting.empty()) return std::nullopt;
  return Verdict{.kind = Kind::unknown,
                 .sentence = fmt::format("{}; {}", waiting, state_unknown(ranks)),
                 .rank = ranks.first()};
}

// All ranks that are known have arrived.
std::optional<Verdict> Judge::complete() const {
  std::vector<const Operation*> roots;
  for (const auto& operation : operations_) {
    if (operation.missing.empty()) roots.push_back(&operation);
  }
  if (roots.empty()) return std::nullopt;
  std::stable_sort(roots.begin(), roots.end(), [](const auto* left, const auto* right) {
    return left->waiting.count() > right->waiting.count();
  });
  const Operation& most = *roots.front();
  const Operation& least = *roots.back();
  const Rank rank = most.waiting.first();
  // A group of one rank completes at once: the ranks that this one waits for are in another group.
  const bool is_apart = roots.size() > 1 && least.waiting.count() == 1 && !most.peer && !least.peer;
  if (!is_apart) {
    const bool is_all = most.waiting == RankSet::all(world_size_);
    std::string who = is_all ? fmt::format("all {} ranks", world_size_) : named(most.waiting);
    std::string sentence;
    if (most.peer) {
      sentence = fmt::format(
          "rank {} waits in {}, and rank {} in the matching {}; neither completes", rank.value,
          title_of(most), most.peer->other.value, most.peer->receives ? "send" : "recv");
    } else if (is_all) {
      sentence = fmt::format("{} wait in {}{}, and it does not complete", who, title_of(most),
                             site_of(rank));
    } else {
      sentence = fmt::format("{} {} in {}{}; no missing rank was found", who,
                             verb(most.waiting, "waits", "wait"), title_of(most), site_of(rank));
    }
    return Verdict{.kind = Kind::all_alike,
                   .sentence = sentence + "; suspect the network or a device",
                   .rank = std::nullopt};
  }
  const bool is_alike = most.waiting.count() == 1;
  const Operation& one = is_alike ? most : least;
  const Operation& others = is_alike ? least : most;
  return Verdict{
      .kind = Kind::opposite_order,
      .sentence = fmt::format(
          "likely deadlock, if both groups have these ranks: {} {} in {}{}; {} {} in {}{}; they "
          "call these in opposite order",
          named(one.waiting), verb(one.waiting, "waits", "wait"), title_of(one),
          site_of(one.waiting.first()), named(others.waiting),
          verb(others.waiting, "waits", "wait"), title_of(others), site_of(others.waiting.first())),
      .rank = one.waiting.first()};
}

Verdict Judge::by_clusters() const {
  std::vector<const Cluster*> known;
  RankSet ranks;
  for (const auto& cluster : evidence_.clusters) {
    if (cluster.activity == Activity::unknown || cluster.activity == Activity::exited) continue;
    known.push_back(&cluster);
    ranks.add(cluster.ranks);
  }
  if (known.empty()) {
    const std::string reason = unread_reason(Rank{0});
    return {.kind = Kind::unknown,
            .sentence = fmt::format("nothing could be read from any rank{}",
                                    reason.empty() ? "" : fmt::format(" ({})", reason)),
            .rank = std::nullopt};
  }
  std::sort(known.begin(), known.end(), [](const auto* left, const auto* right) {
    const auto key = [](const Cluster& cluster) {
      return std::tuple(cluster.ranks.count(), cluster.activity, cluster.ranks.first());
    };
    return key(*left) < key(*right);
  });
  const Cluster& odd = *known.front();
  const Cluster& most = *known.back();
  const bool is_all = ranks == RankSet::all(world_size_);
  if (known.size() == 1) {
    const bool is_plural = odd.ranks.count() != 1;
    const std::string who =
        is_all && is_plural ? fmt::format("all {} ranks", world_size_) : named(odd.ranks);
    return {.kind = Kind::all_alike,
            .sentence = fmt::format("{} {}", who, clause_of(odd, is_plural)),
            .rank = is_plural ? std::nullopt : std::optional(odd.ranks.first())};
  }
  const bool is_clear =
      2 * odd.ranks.count() < ranks.count() || (known.size() == 2 && odd.activity != most.activity);
  if (!is_clear) {
    return {.kind = Kind::unknown,
            .sentence = fmt::format("inconclusive: the {} ranks are in {} different states",
                                    ranks.count(), known.size()),
            .rank = std::nullopt};
  }
  return {.kind = Kind::odd_one_out,
          .sentence = fmt::format("{} {}, while {} {}", named(odd.ranks),
                                  clause_of(odd, odd.ranks.count() != 1), counted(most.ranks),
                                  clause_of(most, most.ranks.count() != 1)),
          .rank = odd.ranks.first()};
}

Verdict Judge::verdict() const {
  if (auto found = stopped()) return *found;
  if (auto found = exited()) return *found;
  if (auto found = missing(&Judge::waits_nowhere)) return *found;
  if (auto found = missing(&Judge::is_elsewhere)) return *found;
  if (auto found = cycle()) return *found;
  if (auto found = mismatch()) return *found;
  if (auto found = missing(&Judge::does_something_else)) return *found;
  if (auto found = outside()) return *found;
  if (auto found = ahead()) return *found;
  if (auto found = unread()) return *found;
  if (auto found = complete()) return *found;
  return by_clusters();
}

}  // namespace

std::string_view name_of(Verdict::Kind kind) {
  return kind_texts.at(static_cast<std::size_t>(kind)).name;
}

std::string_view hint_of(Verdict::Kind kind) {
  return kind_texts.at(static_cast<std::size_t>(kind)).hint;
}

std::string_view hint_of(std::string_view kind_name) {
  const auto* const found = std::ranges::find(kind_texts, kind_name, &KindText::name);
  return found == kind_texts.end() ? std::string_view() : found->hint;
}

std::vector<std::string_view> parts_of(std::string_view sentence) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t at = 0; at < sentence.size(); ++at) {
    if (sentence[at] == '(') ++depth;
    if (sentence[at] == ')') --depth;
    if (depth != 0 || !sentence.substr(at).starts_with("; ")) continue;
    parts.push_back(sentence.substr(start, at - start));
    start = at + 2;
  }
  parts.push_back(sentence.substr(start));
  return parts;
}

Verdict verdict_of(const Evidence& evidence, int world_size) {
  return Judge(evidence, world_size).verdict();
}

}  // namespace cpprun::hang
