// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Chooses the GPU of a worker, or explains why it has none. Does not depend on CUDA.

#include <string>

#include "proto/result.h"
#include "worker/env/context.h"

namespace cpprun {

// `visible`: the number of CUDA devices this process sees. Returns an index among them: LOCAL_RANK,
// or 0 if the launcher already masked all but one device for each worker.
Result<int> choose_cuda_device(const Context& context, int visible);

// Whether choose_cuda_device finds a GPU for every worker of this host.
bool each_worker_has_a_device(const Context& context, int visible);

// Whether choose_cuda_device took the only device of CUDA_VISIBLE_DEVICES. Another worker of this
// host must then have another one.
bool takes_masked_device(const Context& context, int visible);

// The error of a worker whose CUDA_VISIBLE_DEVICES another worker of this host has too.
std::string shared_mask(const Context& context);

}  // namespace cpprun
