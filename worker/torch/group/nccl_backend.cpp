// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/nccl_backend.h"

#include "worker/torch/group/distributed_error.h"

#ifdef CPPRUN_WITH_NCCL
#include <fmt/format.h>
#include <torch/csrc/cuda/nccl.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#else
#include <torch/csrc/distributed/c10d/Backend.hpp>
#endif

namespace cpprun {

#ifdef CPPRUN_WITH_NCCL

namespace {

// The options passed to the backend contain NCCL's own configuration, which grows with its
// versions: headers other than LibTorch's would give the options another size.
void require_nccl_of_libtorch() {
  const std::uint64_t version = torch::cuda::nccl::version();
  const std::uint64_t major = version >> 32;
  const std::uint64_t minor = version >> 16 & 0xffff;
  if (major == NCCL_MAJOR && minor == NCCL_MINOR) return;
  const auto theirs = fmt::format("{}.{}.{}", major, minor, version & 0xffff);
  throw DistributedError(fmt::format(
      "backend nccl was built with the headers of NCCL {}.{}.{}, but this LibTorch with NCCL {}: "
      "install the headers of {} (pip: nvidia-nccl) and rebuild, or use backend gloo",
      NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, theirs, theirs));
}

}  // namespace

bool nccl_built() {
  return true;
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    std::chrono::milliseconds timeout) {
  require_nccl_of_libtorch();
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
      "backend nccl is not part of this build, because LibTorch was built without CUDA; use "
      "backend gloo");
}

#endif

}  // namespace cpprun
