// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Ids used only inside cpprun; proto/rank.h has those that workers share.

#include <cstdint>

#include "proto/rank.h"

namespace cpprun {

// One accepted TCP connection of a store client. Never reused within a process.
using ConnectionId = Id<struct ConnectionTag, std::uint64_t>;
// One accepted connection that speaks the link, from an agent or an operator. Never reused.
using LinkId = Id<struct LinkTag, std::uint64_t>;
// One agreed membership of a job; starts at 1 and grows by one with every sealed round.
using RoundNumber = Id<struct RoundTag, std::uint32_t>;

}  // namespace cpprun
