// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A worker's place among the others. Ids of different kinds are different types: a Rank cannot be
// passed where a LocalRank is meant. Ids order and hash by value. A public header.

#include <compare>
#include <cstddef>
#include <functional>

namespace cpprun {

template <class Tag, class Value>
struct Id {
  Value value{};
  friend auto operator<=>(const Id&, const Id&) = default;
};

// The names are those of torchrun: RANK, LOCAL_RANK, GROUP_RANK (a node's, that is an agent's).
using Rank = Id<struct RankTag, int>;
using LocalRank = Id<struct LocalRankTag, int>;
using GroupRank = Id<struct GroupRankTag, int>;

}  // namespace cpprun

template <class Tag, class Value>
struct std::hash<cpprun::Id<Tag, Value>> {
  std::size_t operator()(const cpprun::Id<Tag, Value>& id) const noexcept {
    return std::hash<Value>{}(id.value);
  }
};
