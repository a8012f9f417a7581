// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/nccl_backend.h"

#include "worker/torch/group/distributed_error.h"

#ifdef CPPRUN_WITH_NCCL
#include <cuda_runtime_api.h>
#include <dlfcn.h>
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
      "backend nccl was built with the headers of NCCL {}.{}.{}, but this LibTorch was built with "
      "NCCL {}: install the headers of NCCL {} (pip package nvidia-nccl-cu12 or nvidia-nccl-cu13) "
      "and rebuild, or use backend gloo",
      NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, theirs, theirs));
}

// CUDA's runtime comes with LibTorch's libraries, and nothing here is linked with it.
template <class Function>
Function* in_cuda_runtime(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

bool is_capturing() {
  static auto* const ask =
      in_cuda_runtime<cudaError_t(cudaStream_t, cudaStreamCaptureStatus*)>("cudaStreamIsCapturing");
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return ask == nullptr || ask(c10::cuda::getCurrentCUDAStream(), &status) != cudaSuccess ||
         status != cudaStreamCaptureStatusNone;
}

// While it lives, this thread's questions to CUDA do not break a graph that another thread records.
class OutsideOfCaptures {
 public:
  OutsideOfCaptures() { exchange(); }
  ~OutsideOfCaptures() { exchange(); }
  OutsideOfCaptures(const OutsideOfCaptures&) = delete;
  OutsideOfCaptures& operator=(const OutsideOfCaptures&) = delete;

 private:
  void exchange() {
    static auto* const swap =
        in_cuda_runtime<cudaError_t(cudaStreamCaptureMode*)>("cudaThreadExchangeStreamCaptureMode");
    // It fails only if CUDA does, and then there is no capture to protect.
    if (swap != nullptr) static_cast<void>(swap(&mode_));
  }

  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeThreadLocal;
};

}  // namespace

bool nccl_built() {
  return true;
}

std::function<bool()> completion_of(const c10::intrusive_ptr<c10d::Work>& work) {
  using Native = c10d::ProcessGroupNCCL::WorkNCCL;
  const auto* native = dynamic_cast<const Native*>(work.get());
  if (native == nullptr || is_capturing()) return nullptr;
  // A copy has no outputs. LibTorch's own watchdog keeps such copies too.
  return [copy = c10::make_intrusive<Native>(*native)] {
    const OutsideOfCaptures outside;
    return copy->isCompleted();
  };
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

std::function<bool()> completion_of(const c10::intrusive_ptr<c10d::Work>&) {
  return nullptr;
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>&, int,
                                                    int, std::chrono::milliseconds) {
  throw DistributedError(
      "backend nccl is not part of this build, because LibTorch was built without CUDA; use "
      "backend gloo");
}

#endif

}  // namespace cpprun
