// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"
#include "worker/torch/collectives/collectives.h"

namespace new_group_test {

using namespace cpprun;
using testing::expect;

namespace {

float sum_over(const ProcessGroup& group, double mine) {
  const at::Tensor tensor = at::full({1}, mine, at::kFloat);
  all_reduce(tensor, group);
  return tensor.item<float>();
}

}  // namespace

TEST_CASE("groups of some ranks compute among themselves") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& whole_group) {
          const int rank = whole_group.rank();
          const auto outer = new_group(whole_group, {2, 0});
          const auto last = new_group(whole_group, {1, 2});
          expect(outer.has_value() == (rank != 1), "members of the first");
          expect(last.has_value() == (rank != 0), "members of the second");
          if (outer) {
            expect(outer->global_ranks() == std::vector<int>{0, 2}, "sorted");
            expect(outer->rank() == (rank == 0 ? 0 : 1) && outer->size() == 2, "own ranks");
            expect(sum_over(*outer, rank) == 2, "sum of 0 and 2");
          }
          if (last) expect(sum_over(*last, rank) == 3 && last->name() == "2", "sum of 1 and 2");
          expect(sum_over(whole_group, rank) == 3, "the whole group still works");
        }) == "");
}

TEST_CASE("an impossible group is rejected") {
  const ProcessGroup group = init_process_group(Context{});
  CHECK_THROWS_WITH_AS(new_group(group, {0, 1}), "new_group(0, 1): ranks must be from 0 to 0",
                       DistributedError);
  CHECK_THROWS_WITH_AS(new_group(group, {0, 0}), "new_group(0, 0): a rank is listed twice",
                       DistributedError);
  CHECK_THROWS_WITH_AS(new_group(group, {}), "new_group(): a group needs at least one rank",
                       DistributedError);
  const auto alone = new_group(group, {0});
  REQUIRE(alone.has_value());
  CHECK_THROWS_AS(new_group(*alone, {0}), DistributedError);
}

}  // namespace new_group_test
