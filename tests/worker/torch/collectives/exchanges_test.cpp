// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"
#include "worker/torch/collectives/collectives.h"

namespace exchanges_test {

using namespace cpprun;
using namespace std::chrono_literals;
using testing::expect;

namespace {

at::Tensor numbers(std::int64_t count, double first) {
  return at::arange(count, at::kFloat).add(first);
}

}  // namespace

TEST_CASE("all_to_all_single cuts into equal parts or by the given splits") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const double base = group.rank() * 10;
          const at::Tensor equal = all_to_all_single(numbers(4, base), group);
          const float first = group.rank() == 0 ? 0 : 2;
          expect(equal[0].item<float>() == first, "own half of rank 0");
          expect(equal[2].item<float>() == first + 10, "own half of rank 1");
          // Rank 0 keeps one and sends two; rank 1 sends three and keeps none.
          const std::vector<std::int64_t> out =
              group.rank() == 0 ? std::vector<std::int64_t>{1, 3} : std::vector<std::int64_t>{2, 0};
          const std::vector<std::int64_t> in =
              group.rank() == 0 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{3, 0};
          const at::Tensor uneven = all_to_all_single(numbers(3, base), group, out, in);
          expect(uneven.size(0) == (group.rank() == 0 ? 4 : 2), "uneven size");
          expect(uneven[1].item<float>() == (group.rank() == 0 ? 10.0F : 2.0F), "uneven content");
        }) == "");
}

TEST_CASE("all_to_all exchanges tensors of different shapes") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const int rank = group.rank();
          // Each rank sends one number to rank 0 and a 2 by 2 to rank 1.
          const std::vector<at::Tensor> inputs = {numbers(1, rank), at::full({2, 2}, rank + 5.0)};
          const auto like = inputs[static_cast<std::size_t>(rank)];
          const std::vector<at::Tensor> outputs = {at::zeros_like(like), at::zeros_like(like)};
          all_to_all(outputs, inputs, group);
          const double offset = rank == 0 ? 0 : 5;
          expect(outputs[0].flatten()[0].item<double>() == offset, "from rank 0");
          expect(outputs[1].flatten()[0].item<double>() == offset + 1, "from rank 1");
        }) == "");
}

TEST_CASE("a monitored barrier names the missing rank") {
  const std::string error = testing::on_two_ranks([](const ProcessGroup& group) {
    if (group.rank() == 0) monitored_barrier(group, 300ms);
  });
  INFO(error);
  CHECK(error.find("monitored_barrier failed") != std::string::npos);
  CHECK(error.find("1 failed to pass") != std::string::npos);
}

TEST_CASE("mismatched splits are rejected before any rank waits") {
  const ProcessGroup group = init_process_group(Context{});
  CHECK_THROWS_WITH_AS(all_to_all_single(numbers(3, 0), group, {}, {2}),
                       "all_to_all_single: input splits [2] must be 1 numbers that add up to 3",
                       DistributedError);
  CHECK_THROWS_AS(all_to_all({}, {}, group), DistributedError);
}

}  // namespace exchanges_test
