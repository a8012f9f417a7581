// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/nccl_backend.h"

#include "worker/torch/group/distributed_error.h"

#ifdef CPPRUN_WITH_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#else
#include <torch/csrc/distributed/c10d/Backend.hpp>
#endif

namespace cpprun {

#ifdef CPPRUN_WITH_NCCL

bool nccl_built() {
  return true;
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/false);
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, std::move(options));
}

#else

bool nccl_built() {
  return false;
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>&, int,
                                                    int, std::chrono::milliseconds) {
  throw DistributedError(
      "nccl is not part of this build: LibTorch was built without CUDA; use backend gloo");
}

#endif

}  // namespace cpprun
