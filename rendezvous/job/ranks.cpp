// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/ranks.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace cpprun {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The run of digits at the front, without its leading zeros.
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
  return left_whole < right_whole;  // equal but for leading zeros: any order, but always the same
}

std::vector<std::size_t> seat_order(const std::vector<Candidate>& candidates) {
  std::vector<std::size_t> sorted(candidates.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i] = i;
  std::sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
    return comes_before(candidates[a], candidates[b]);
  });

  // Where somebody's seat does not exist, because there are fewer of them, the wishes only order:
  // into the seats that are free whoever is last would get before the others.
  const bool all_exist = std::ranges::all_of(candidates, [&](const Candidate& each) {
    return !each.node_rank || static_cast<std::size_t>(*each.node_rank) < candidates.size();
  });
  if (!all_exist) return sorted;

  // First whoever asked for a seat, then the others into what is free, in order.
  std::vector<std::optional<std::size_t>> seats(candidates.size());
  std::vector<std::size_t> unseated;
  for (const std::size_t index : sorted) {
    const std::optional<int> wish = candidates[index].node_rank;
    if (wish && !seats[static_cast<std::size_t>(*wish)]) {
      seats[static_cast<std::size_t>(*wish)] = index;
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

}  // namespace cpprun
