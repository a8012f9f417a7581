// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The only way to create an NCCL backend. In its own file because only it needs the headers of CUDA
// and NCCL. Where LibTorch was built without CUDA, it only throws.

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>

namespace c10d {
class Backend;
class Store;
class Work;
}  // namespace c10d

namespace cpprun {

// Whether this build has NCCL; otherwise make_nccl_backend() throws.
bool nccl_built();

// Opens no connection yet: NCCL connects at the first collective. The GPU of this rank must already
// be the current device (worker/torch/group/device.h). LibTorch's watchdog ends the process if a
// collective takes longer than `timeout`. Throws DistributedError.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    std::chrono::milliseconds timeout);

// How to find out whether `work` has finished on the GPU, for any thread. It keeps none of the
// operation's outputs alive. Empty if `work` is not NCCL's, or is only recorded into a CUDA graph.
std::function<bool()> completion_of(const c10::intrusive_ptr<c10d::Work>& work);

}  // namespace cpprun
