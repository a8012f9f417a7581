// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The store at which the ranks of a placement meet.

#include <c10/util/intrusive_ptr.h>

#include <chrono>

#include "worker/torch/group/placement.h"

namespace c10d {
class Store;
}  // namespace c10d

namespace cpprun {

// Reaches the store, or serves it if this rank has to. Throws what LibTorch throws when that does
// not succeed within `timeout`. Not for Meeting::given.
c10::intrusive_ptr<c10d::Store> open_meeting_store(const Placement& placement,
                                                   std::chrono::milliseconds timeout);

}  // namespace cpprun
