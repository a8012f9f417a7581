// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Closing whatever a process was left with. Allocates nothing, so that a child that borrows its
// parent's memory may call it.

#include <vector>

namespace cpprun {

// Every open descriptor from `first` on; where the kernel has no call for it (before 5.9, or in a
// sandbox that refuses it), one by one.
void close_from(int first);

// As close_from, but for those in `kept`. For a child with memory of its own.
void close_from_but(int first, std::vector<int> kept);

}  // namespace cpprun
