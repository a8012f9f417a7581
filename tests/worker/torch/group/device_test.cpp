// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/device.h"

#include <doctest/doctest.h>

#include "worker/torch/group/distributed_error.h"

using namespace cpprun;

TEST_CASE("the default device is a GPU where there is one") {
  CHECK(default_device(Context{}).is_cuda() == (cuda_device_count() > 0));
}

TEST_CASE("a GPU that is not there is refused in words") {
  Context context;
  context.local_rank = LocalRank{1000};
  context.local_world_size = 1001;
  CHECK_THROWS_AS(bind_cuda_device(context), DistributedError);
}
