// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A process group for LibTorch's own code (above all the Reducer) and for code inside a backward
// pass. It uses the same connections, with three additions: a failure becomes a DistributedError
// that names the operation, its caller and the rank; CPPRUN_DISTRIBUTED_DEBUG=DETAIL compares its
// operations like all others; using a group that was left throws. Supports all_reduce, broadcast
// and all_gather only.

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <string>

#include "worker/torch/group/process_group.h"

namespace cpprun {

// Returns the caller's name for error messages: "step 3 of DistributedDataParallel(Net)". Called at
// every failure and, in debug mode, at every operation, on any thread.
using Caller = std::function<std::string()>;

// The result does not keep the group alive: the group can still be left.
c10::intrusive_ptr<c10d::ProcessGroup> guarded(const ProcessGroup& group, Caller caller);

}  // namespace cpprun
