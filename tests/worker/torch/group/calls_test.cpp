// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/failure.h"

#include <ATen/ops/full.h>
#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("a tensor is described by type, shape and device") {
  CHECK(describe(at::full({4, 3}, 1.0, at::kFloat)) == "Float [4, 3] on cpu");
}

TEST_CASE("tensors that an operation cannot use are rejected with a hint") {
  CHECK_THROWS_WITH_AS(require_dense(at::full({2, 3}, 1.0).t(), "send"),
                       "send: the tensor is not contiguous: call contiguous() (x = x.contiguous())",
                       DistributedError);
  const ProcessGroup group = init_process_group(Context{});
  CHECK_THROWS_WITH_AS(require_rank(-1, group, "gather", "root"),
                       "gather: root -1 is not a rank of this group of 1", DistributedError);
}
