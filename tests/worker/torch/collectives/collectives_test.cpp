// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/collectives/collectives.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"

namespace collectives_test {

using namespace cpprun;
using testing::expect;

namespace {

// Rank 0 contributes 2, rank 1 contributes 5.
float reduced(const ProcessGroup& group, ReduceOp op) {
  const at::Tensor tensor = at::full({4}, group.rank() == 0 ? 2.0 : 5.0, at::kFloat);
  all_reduce(tensor, group, op);
  return tensor[3].item<float>();
}

}  // namespace

TEST_CASE("all_reduce reduces by every operation") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          expect(reduced(group, ReduceOp::sum) == 7, "sum");
          expect(reduced(group, ReduceOp::average) == 3.5, "average");
          expect(reduced(group, ReduceOp::product) == 10, "product");
          expect(reduced(group, ReduceOp::min) == 2, "min");
          expect(reduced(group, ReduceOp::max) == 5, "max");
        }) == "");
}

TEST_CASE("broadcast, all_gather and barrier do what their names say") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const at::Tensor tensor = at::full({2}, group.rank(), at::kLong);
          broadcast(tensor, group, 1);
          expect(tensor[0].item<std::int64_t>() == 1, "broadcast");
          expect(all_gather(group.rank() + 0.5, group) == std::vector<double>{0.5, 1.5}, "gather");
          const auto tensors = all_gather(at::full({2}, group.rank(), at::kInt), group);
          expect(tensors.size() == 2 && tensors[1][1].item<int>() == 1, "gathered tensors");
          barrier(group);
        }) == "");
}

TEST_CASE("tensors that a collective cannot use are rejected with a hint") {
  const ProcessGroup group = init_process_group(Context{});
  CHECK_THROWS_WITH_AS(
      all_reduce(at::full({2, 3}, 1.0).t(), group),
      "all_reduce: the tensor is not contiguous: call contiguous() (x = x.contiguous())",
      DistributedError);
  CHECK_THROWS_WITH_AS(all_reduce(at::Tensor(), group), "all_reduce: the tensor is undefined",
                       DistributedError);
  CHECK_THROWS_WITH_AS(broadcast(at::full({2}, 1.0), group, 1),
                       "broadcast: source 1 is not a rank of this group of 1", DistributedError);
}

TEST_CASE("whole numbers are reduced bit by bit") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const auto bits = [&group](ReduceOp op) {
            const at::Tensor tensor = at::full({1}, group.rank() == 0 ? 12 : 10, at::kLong);
            all_reduce(tensor, group, op);
            return tensor.item<std::int64_t>();
          };
          expect(bits(ReduceOp::bit_and) == 8, "and");
          expect(bits(ReduceOp::bit_or) == 14, "or");
          expect(bits(ReduceOp::bit_xor) == 6, "xor");
        }) == "");
}

TEST_CASE("reduce, gather and scatter have a root") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& group) {
          const int rank = group.rank();
          const at::Tensor mine = at::full({2}, rank, at::kFloat);
          const auto gathered = gather(mine, group, 2);
          expect(gathered.size() == (rank == 2 ? 3U : 0U), "gathered on the root alone");
          if (rank == 2) expect(gathered[1][0].item<float>() == 1, "gathered");
          const at::Tensor average = mine.clone();
          reduce(average, group, 1, ReduceOp::average);
          if (rank == 1) expect(average[0].item<float>() == 1, "average");
          std::vector<at::Tensor> inputs;
          for (int i = 0; i < 3 && rank == 0; ++i)
            inputs.push_back(at::full({2}, i + 5.0, at::kFloat));
          const at::Tensor part = at::zeros({2}, at::kFloat);
          scatter(part, inputs, group);
          expect(part[1].item<float>() == static_cast<float>(rank + 5), "scattered");
        }) == "");
}

TEST_CASE("reduce_scatter and all_gather_into_tensor undo each other's shapes") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const at::Tensor whole = at::arange(4, at::kFloat).add(group.rank());
          const at::Tensor part = reduce_scatter_tensor(whole, group, ReduceOp::average);
          expect(part.size(0) == 2, "half of it");
          expect(part[0].item<float>() == static_cast<float>(2 * group.rank()) + 0.5F, "average");
          const at::Tensor all = all_gather_into_tensor(part, group);
          expect(all.size(0) == 4 && all[3].item<float>() == 3.5, "all of it");
          const auto listed = reduce_scatter({at::full({3}, 1.0), at::full({3}, 2.0)}, group);
          expect(listed.size(0) == 3 && listed[0].item<double>() == 2.0 * (group.rank() + 1),
                 "list");
        }) == "");
}

}  // namespace collectives_test
