// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How much memory this process may use at all.

#include <cstdint>
#include <string>

#include "rendezvous/store/ledger.h"

namespace cpprun {

// The machine's, or that of the tightest control group around us, whichever is less. `root` is
// where /proc and /sys are, for tests.
std::uint64_t usable_memory_bytes(const std::string& root = "");

// Half of that for what clients of a store make us hold.
LedgerLimits memory_of_this_machine(const std::string& root = "");

}  // namespace cpprun
