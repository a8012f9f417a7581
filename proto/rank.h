// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Ids of workers. Ids of different kinds are different types: a Rank cannot be passed as a
// LocalRank. They are ordered and hashed by value. A public header.

#include <compare>
#include <cstddef>
#include <functional>

namespace cpprun {

template <class Tag, class Value>
struct Id {
  Value value{};
  friend auto operator<=>(const Id&, const Id&) = default;
};

// Named as in torchrun: RANK, LOCAL_RANK, GROUP_RANK (that of a node, and so of an agent).
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
