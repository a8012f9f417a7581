// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/nccl_backend.h"

// Before doctest, because LibTorch has a CHECK of its own.
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <doctest/doctest.h>

#include "worker/torch/group/device.h"
#include "worker/torch/group/distributed_error.h"

using namespace cpprun;

TEST_CASE("without CUDA the nccl backend is missing, and the rejection names an alternative") {
  if (nccl_built()) {
    MESSAGE("skipped: LibTorch was built with CUDA");
    return;
  }
  CHECK_THROWS_WITH_AS(make_nccl_backend(c10::make_intrusive<c10d::HashStore>(), 0, 1, {}),
                       "backend nccl is not part of this build, because LibTorch was built without "
                       "CUDA; use backend gloo",
                       DistributedError);
}

TEST_CASE("an nccl backend is created for the current GPU") {
  if (!nccl_built() || cuda_device_count() == 0) {
    MESSAGE("skipped: no LibTorch with CUDA, or no GPU");
    return;
  }
  bind_cuda_device(Context{});
  const auto backend =
      make_nccl_backend(c10::make_intrusive<c10d::HashStore>(), 0, 1, std::chrono::minutes(1));
  CHECK(backend->getBackendName() == "nccl");
}
