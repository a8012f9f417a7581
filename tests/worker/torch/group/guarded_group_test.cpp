// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/guarded_group.h"

#include <ATen/ops/full.h>
// Before doctest, because LibTorch has a CHECK of its own.
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"
#include "worker/torch/collectives/collectives.h"

namespace guarded_group_test {

using namespace cpprun;
using testing::expect;

namespace {

// The sum over the ranks of their number above zero.
float sum_of_ranks(c10d::ProcessGroup& native) {
  std::vector<at::Tensor> tensors = {at::full({2}, native.getRank() + 1.0, at::kFloat)};
  native.allreduce(tensors)->wait();
  return tensors[0][0].item<float>();
}

}  // namespace

TEST_CASE("a guarded group computes like the group, with works and with futures") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const auto native = guarded(group, [] { return "a test"; });
          expect(sum_of_ranks(*native) == 3, "by its work");
          std::vector<at::Tensor> tensors = {at::full({1}, group.rank() + 5.0, at::kFloat)};
          native->broadcast(tensors)->getFuture()->wait();
          expect(tensors[0].item<float>() == 5, "by its future");
        }) == "");
}

TEST_CASE("a failure names the operation, the group and the rank") {
  std::string words;
  CHECK(testing::on_two_ranks([&](const ProcessGroup& group) {
          if (group.rank() == 1) return;
          try {
            sum_of_ranks(*guarded(group, [] { return "a test"; }));
          } catch (const DistributedError& error) {
            words = error.what();
          }
        }) == "");
  INFO(words);
  CHECK(words.starts_with("all_reduce(Float [2] on cpu) in a test on rank 0 failed: "));
  CHECK(words.ends_with("; rank 1 left the group normally"));
}

TEST_CASE("a guarded group does not keep the group alive, and reports that it was left") {
  ProcessGroup group = init_process_group(Context{});
  const auto native = guarded(group, [] { return "a test"; });
  destroy_process_group(std::move(group));
  CHECK_THROWS_AS(sum_of_ranks(*native), DistributedError);
}

}  // namespace guarded_group_test
