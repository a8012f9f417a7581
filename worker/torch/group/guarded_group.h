// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A process group for LibTorch's own machinery, the Reducer above all, and for what runs inside a
// backward: the same connections, but a failure arrives as DistributedError that says which
// operation of whom failed on which rank, CPPRUN_DISTRIBUTED_DEBUG=DETAIL compares its operations
// like all others, and a group that was left is an exception. It knows all_reduce, broadcast and
// all_gather.

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <string>

#include "worker/torch/group/process_group.h"

namespace cpprun {

// Who calls, as it stands in the sentence: "step 3 of DistributedDataParallel(Net)". Asked at every
// failure, and in debug mode at every operation; on any thread.
using Caller = std::function<std::string()>;

// Does not keep the group from being left.
c10::intrusive_ptr<c10d::ProcessGroup> guarded(const ProcessGroup& group, Caller caller);

}  // namespace cpprun
