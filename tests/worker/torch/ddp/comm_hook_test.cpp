// SPDX-License-Identifier: BSD-3-Clause
// Whole trainings with hooks are compared with Python's by ddp_parity.py.

#include "worker/torch/ddp/ddp_core.h"

#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"

namespace comm_hook_test {

using namespace cpprun;
using testing::expect;

TEST_CASE("hooks give the average over all ranks") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          for (const CommHook& hook : {allreduce_hook, fp16_compress_hook, bf16_compress_hook}) {
            const GradientBucket bucket{.buffer = at::full({3}, group.rank() + 1.0, at::kFloat),
                                        .parameters = {}};
            const at::Tensor average = hook(bucket, group).wait().front();
            expect(average.scalar_type() == at::kFloat, "the type of the gradients");
            expect(average[2].item<float>() == 1.5, "the average of 1 and 2");
          }
        }) == "");
}

}  // namespace comm_hook_test
