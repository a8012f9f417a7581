// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Ids. Ids of different kinds are different types: a Rank cannot be passed as a LocalRank. They are
// ordered and hashed by value. A public header.

#include <compare>
#include <cstddef>
#include <cstdint>
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

// The following are used only inside cpprun, not by its workers.

// One accepted TCP connection of a store client. Never reused within a process.
using ConnectionId = Id<struct ConnectionTag, std::uint64_t>;
// One accepted connection that speaks the link, from an agent or an operator. Never reused.
using LinkId = Id<struct LinkTag, std::uint64_t>;
// One agreed membership of a job; starts at 1 and grows by one with every sealed round.
using RoundNumber = Id<struct RoundTag, std::uint32_t>;

}  // namespace cpprun

template <class Tag, class Value>
struct std::hash<cpprun::Id<Tag, Value>> {
  std::size_t operator()(const cpprun::Id<Tag, Value>& id) const noexcept {
    return std::hash<Value>{}(id.value);
  }
};
