// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The memory that this process may use.

#include <cstdint>
#include <string>

#include "rendezvous/store/memory_accounting.h"

namespace cpprun {

// The memory of the machine, or of the tightest control group around this process, whichever is
// less. `root` is where /proc and /sys are, for tests.
std::uint64_t usable_memory_bytes(const std::string& root = "");

// Half of that, for what store clients make this process hold.
MemoryLimits memory_of_this_machine(const std::string& root = "");

}  // namespace cpprun
