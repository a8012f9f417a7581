// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/work.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include <future>

#include "tests/worker/two_ranks.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/collectives/messages.h"

namespace work_test {

using namespace cpprun;
using namespace std::chrono_literals;
using testing::expect;

TEST_CASE("a handle keeps its tensors and returns them when they are ready") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          // Only the handle holds this tensor.
          Work work = all_reduce_async(at::full({3}, group.rank() + 1.0, at::kFloat), group);
          expect(work.wait().front()[2].item<float>() == 3, "sum");
          expect(work.is_completed(), "completed");
          expect(work.wait().size() == 1, "a second wait returns the same");
        }) == "");
}

TEST_CASE("a continuation of an operation runs once, and its tensors are the outputs") {
  const ProcessGroup group = init_process_group(Context{});
  int runs = 0;
  Work work = all_reduce_async(at::full({1}, 4.0, at::kFloat), group).then([&runs] {
    ++runs;
    return std::vector<at::Tensor>{at::full({1}, 9.0, at::kFloat)};
  });
  CHECK(work.wait().front().item<float>() == 9);
  CHECK(work.wait().front().item<float>() == 9);
  CHECK(runs == 1);
}

TEST_CASE("an average is divided once, however often and by which thread it is awaited") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const at::Tensor mean = at::full({1}, 8.0, at::kFloat);
          Work work = all_reduce_async(mean, group, ReduceOp::average);
          Work next = work.then([mean] { return std::vector<at::Tensor>{mean}; });
          work.wait();
          next.wait();
          work.future()->wait();
          expect(mean.item<float>() == 8, "the mean of two eights");
        }) == "");
}

TEST_CASE("a future completes with the outputs") {
  const ProcessGroup group = init_process_group(Context{});
  const auto future = all_reduce_async(at::full({1}, 4.0, at::kFloat), group).future();
  future->wait();
  CHECK(future->value().toTensorVector().front().item<float>() == 4);
}

TEST_CASE("an operation that times out is named with a hint") {
  std::promise<void> over;
  const std::string error = testing::on_two_ranks(
      [&](const ProcessGroup& group) {
        if (group.rank() == 1) return over.get_future().wait();  // It is there, and sends nothing.
        try {
          recv(at::full({1}, 0.0, at::kFloat), 1, group);
        } catch (const DistributedError&) {
          over.set_value();
          throw;
        }
      },
      {.timeout = 300ms, .join_timeout = 60s});
  INFO(error);
  CHECK(error.find("recv from rank 1 failed: ") != std::string::npos);
  CHECK(error.find("compare ranks, order and tags") != std::string::npos);
}

}  // namespace work_test
