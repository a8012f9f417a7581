// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The one way to an NCCL backend. A file of its own because only it needs CUDA's and NCCL's
// headers; where LibTorch was built without CUDA it holds the refusal alone.

#include <c10/util/intrusive_ptr.h>

#include <chrono>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace cpprun {

// Whether make_nccl_backend() can do anything in this build.
bool nccl_built();

// Does not talk to anybody yet: NCCL connects at the first collective. The GPU of this rank has to
// be the current one already (worker/torch/group/device.h). The watchdog of LibTorch ends the
// process when a collective takes longer than `timeout`. Throws DistributedError.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    std::chrono::milliseconds timeout);

}  // namespace cpprun
