#pragma once
// Two ids of different kinds are different types: a Rank cannot be passed where a LocalRank is
// meant. Ids order and hash by value.

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

// One accepted TCP connection of a store client. Never reused within a process.
using ConnectionId = Id<struct ConnectionTag, std::uint64_t>;
// One accepted connection of an agent (or of an operator) that speaks the link. Never reused.
using LinkId = Id<struct LinkTag, std::uint64_t>;
// One agreed membership of a job; grows by one with every sealed round, starts at 1.
using RoundNumber = Id<struct RoundTag, std::uint32_t>;

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
