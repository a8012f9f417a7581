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

std::string version_text(std::uint64_t major, std::uint64_t minor, std::uint64_t patch) {
  return fmt::format("{}.{}.{}", major, minor, patch);
}

// The options contain NCCL's own configuration struct, which grows with NCCL's version. With
// headers of another version, its size would differ from LibTorch's.
void require_libtorchs_nccl() {
  const std::uint64_t theirs = torch::cuda::nccl::version();
  const std::uint64_t major = theirs >> 32;
  const std::uint64_t minor = theirs >> 16 & 0xffff;
  if (major == NCCL_MAJOR && minor == NCCL_MINOR) return;
  throw DistributedError(fmt::format(
      "backend nccl was compiled with the headers of NCCL {}, and this LibTorch with those of {}: "
      "install the headers of {} (pip: nvidia-nccl) and build again, or use backend gloo",
      version_text(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), version_text(major, minor, theirs & 0xffff),
      version_text(major, minor, theirs & 0xffff)));
}

}  // namespace

bool nccl_built() {
  return true;
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    std::chrono::milliseconds timeout) {
  require_libtorchs_nccl();
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
