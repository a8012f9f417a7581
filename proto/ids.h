// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The ids that never leave cpprun; proto/rank.h has those that workers know as well.

#include <cstdint>

#include "proto/rank.h"

namespace cpprun {

// One accepted TCP connection of a store client. Never reused within a process.
using ConnectionId = Id<struct ConnectionTag, std::uint64_t>;
// One accepted connection of an agent (or of an operator) that speaks the link. Never reused.
using LinkId = Id<struct LinkTag, std::uint64_t>;
// One agreed membership of a job; grows by one with every sealed round, starts at 1.
using RoundNumber = Id<struct RoundTag, std::uint32_t>;

}  // namespace cpprun
