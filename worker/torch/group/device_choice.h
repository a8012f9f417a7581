// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which GPU a worker takes, and what to say when there is none for it. Knows no CUDA.

#include "proto/result.h"
#include "worker/env/context.h"

namespace cpprun {

// `visible` is how many CUDA devices this process sees. The answer is the index among those:
// LOCAL_RANK, or 0 where the launcher already masked all but one of them for each worker.
Result<int> choose_cuda_device(const Context& context, int visible);

// Whether choose_cuda_device finds a GPU for every worker of this host.
bool each_worker_has_a_device(const Context& context, int visible);

}  // namespace cpprun
