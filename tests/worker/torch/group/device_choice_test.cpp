// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/device_choice.h"

#include <doctest/doctest.h>

namespace device_choice_test {

using namespace cpprun;

namespace {

Context local_rank(int rank, int of) {
  Context context;
  context.local_rank = LocalRank{rank};
  context.local_world_size = of;
  return context;
}

}  // namespace

TEST_CASE("a worker uses the GPU of its local rank") {
  CHECK(choose_cuda_device(local_rank(1, 2), 2) == 1);
  CHECK(choose_cuda_device(local_rank(0, 1), 8) == 0);
}

TEST_CASE("a worker with one visible GPU uses it whatever its rank") {
  Context context = local_rank(3, 4);
  context.cuda_visible_devices = "3";
  CHECK(choose_cuda_device(context, 1) == 0);
}

TEST_CASE("two workers with the same single visible GPU are an error that names the variable") {
  Context context = local_rank(1, 2);
  context.cuda_visible_devices = "0,1";
  CHECK_FALSE(takes_masked_device(context, 2));
  CHECK_FALSE(takes_masked_device(context, 1));  // one of them is broken: not the launcher's choice
  context.cuda_visible_devices = "0";
  CHECK(takes_masked_device(context, 1));
  CHECK(shared_mask(context) ==
        "local rank 1 shares its GPU with another worker: both have CUDA_VISIBLE_DEVICES=0, and "
        "nccl needs one GPU for each; list 2 devices there for 2 workers, or start one worker "
        "(--nproc-per-node=1), or use backend gloo");
}

TEST_CASE("more workers than GPUs are an error with a hint") {
  CHECK(choose_cuda_device(local_rank(3, 4), 2).error().reason ==
        "local rank 3 has no GPU of its own: 2 visible for 4 workers "
        "(CUDA_VISIBLE_DEVICES is not set); start at most 2 here (--nproc-per-node=2, or "
        "--nproc-per-node=gpu), or use backend gloo on the CPU");
}

TEST_CASE("all workers of a host agree on whether each has a GPU") {
  for (const int rank : {0, 1}) {
    CHECK(each_worker_has_a_device(local_rank(rank, 2), 2));
    CHECK_FALSE(each_worker_has_a_device(local_rank(rank, 2), 1));
    CHECK_FALSE(each_worker_has_a_device(local_rank(rank, 2), 0));
  }
}

TEST_CASE("an empty CUDA_VISIBLE_DEVICES is named as the reason") {
  Context context = local_rank(0, 1);
  context.cuda_visible_devices = "";
  CHECK(
      choose_cuda_device(context, 0).error().reason.find("CUDA_VISIBLE_DEVICES is empty: unset") !=
      std::string::npos);
  context.cuda_visible_devices.reset();
  CHECK(
      choose_cuda_device(context, 0).error().reason.find("check that nvidia-smi lists one here") !=
      std::string::npos);
}

}  // namespace device_choice_test
