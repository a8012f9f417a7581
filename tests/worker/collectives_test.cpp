#include "worker/torch/collectives.h"

#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"

using namespace cpprun;

namespace {

void expect(bool condition, const char* what) {
  if (!condition) throw DistributedError(what);
}

// Rank 0 brings 2, rank 1 brings 5.
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

TEST_CASE("what a collective cannot work on is refused with the cure") {
  const ProcessGroup group = init_process_group(Context{});
  CHECK_THROWS_WITH_AS(all_reduce(at::full({2, 3}, 1.0).t(), group),
                       "all_reduce: the tensor is not contiguous, pass .contiguous()",
                       DistributedError);
  CHECK_THROWS_WITH_AS(all_reduce(at::Tensor(), group), "all_reduce: the tensor is undefined",
                       DistributedError);
  CHECK_THROWS_WITH_AS(broadcast(at::full({2}, 1.0), group, 1),
                       "broadcast: source 1 is no rank of a group of 1", DistributedError);
}
