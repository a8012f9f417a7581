// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who gets which number. Pure functions from what nodes said about themselves to group ranks (of
// nodes) and ranks (of workers), in torchrun's numbering: workers count through the nodes in order
// of group rank, and again within each role. No node is ever sent the whole list.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/ids.h"

namespace cpprun {

// What decides a node's place.
struct Candidate {
  std::optional<int> node_rank = {};       // --node_rank, where the user gave one
  std::optional<GroupRank> previous = {};  // its place in the round before: survivors stay in order
  std::string host = {};
  int pid = 0;
};

// The candidates' indices in order of group rank: the n-th entry gets group rank n. A node rank is
// honoured if that seat exists; survivors keep their order, ahead of newcomers; newcomers follow in
// natural host order.
std::vector<std::size_t> seat_order(const std::vector<Candidate>& candidates);

// Numbers inside a text compare as numbers: "node2" before "node10".
bool natural_less(std::string_view left, std::string_view right);

struct NodeShape {
  int local_world_size = 1;
  std::string role = "default";
};

struct RankRange {
  Rank base;  // of the node's local rank 0
  int role_base = 0;
  int role_world_size = 0;
  friend bool operator==(const RankRange&, const RankRange&) = default;
};

struct RankTable {
  int world_size = 0;
  std::vector<RankRange> nodes;  // by group rank
};

RankTable assign_ranks(const std::vector<NodeShape>& nodes_in_order);

}  // namespace cpprun
