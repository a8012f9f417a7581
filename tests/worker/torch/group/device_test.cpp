// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/device.h"

// Before doctest, because LibTorch has a CHECK of its own.
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <doctest/doctest.h>

#include "worker/torch/group/distributed_error.h"

using namespace cpprun;

TEST_CASE("the default device is a GPU if there is one") {
  CHECK(default_device(Context{}).is_cuda() == (cuda_device_count() > 0));
}

TEST_CASE("two workers of one host with the same CUDA_VISIBLE_DEVICES are rejected") {
  c10d::HashStore store;
  Context context;
  context.local_world_size = 2;
  context.cuda_visible_devices = "0";
  claim_masked_device(context, 1, store);
  CHECK_NOTHROW(claim_masked_device(context, 1, store));  // it joins again
  context.local_rank = LocalRank{1};
  CHECK_THROWS_WITH_AS(claim_masked_device(context, 1, store),
                       doctest::Contains("both have CUDA_VISIBLE_DEVICES=0"), DistributedError);
  context.cuda_visible_devices = "1";
  CHECK_NOTHROW(claim_masked_device(context, 1, store));
  context.group_rank = GroupRank{1};
  CHECK_NOTHROW(claim_masked_device(context, 1, store));
  context.local_world_size = 1;  // two launchers on one host: each worker has a host of its own
  CHECK_NOTHROW(claim_masked_device(context, 1, store));
}

TEST_CASE("a missing GPU is rejected with a sentence") {
  Context context;
  context.local_rank = LocalRank{1000};
  context.local_world_size = 1001;
  CHECK_THROWS_AS(bind_cuda_device(context), DistributedError);
}
