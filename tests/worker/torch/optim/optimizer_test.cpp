// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/optimizer.h"

#include <ATen/ops/tensor.h>
#include <doctest/doctest.h>

#include <stdexcept>

namespace optimizer_test {

using namespace cpprun;

namespace {

struct Options {
  double lr = 0;
};
struct Learner : FusedOptimizer<Options> {
  using FusedOptimizer::for_each_with_gradient;
  Learner(std::vector<at::Tensor> parameters, double lr)
      : FusedOptimizer({{std::move(parameters), {lr}}}) {}
};

at::Tensor parameter_of(std::vector<float> values) {
  return at::tensor(values).set_requires_grad(true);
}

}  // namespace

TEST_CASE("gradients are zeroed in place or dropped") {
  const at::Tensor parameter = parameter_of({1, 1});
  Learner learner({parameter}, 1);
  const at::Tensor bucket = at::tensor(std::vector<float>{1, 2, 3, 4});
  parameter.mutable_grad() = bucket.narrow(0, 1, 2);
  learner.zero_grad();
  CHECK(bucket.equal(at::tensor(std::vector<float>{1, 0, 0, 4})));
  learner.zero_grad(/*set_to_none=*/true);
  CHECK_FALSE(parameter.grad().defined());
}

TEST_CASE("only parameters with a gradient take part, by their index and kind") {
  const at::Tensor small = parameter_of({1});
  const at::Tensor unused = parameter_of({1});
  const at::Tensor large = at::tensor(std::vector<double>{1}).set_requires_grad(true);
  for (const at::Tensor& each : {small, large}) each.mutable_grad() = each.detach().clone();
  const Learner learner({small, unused, large}, 1);
  std::vector<std::size_t> indices;
  std::vector<at::ScalarType> types;
  learner.for_each_with_gradient([&](std::size_t i, const at::Tensor&, const auto& kind) {
    indices.push_back(i);
    types.push_back(kind.type);
    CHECK(kind.device == c10::DeviceType::CPU);
  });
  CHECK(indices == std::vector<std::size_t>{0, 2});
  CHECK(types == std::vector{at::kFloat, at::kDouble});
}

TEST_CASE("a parameter that is there twice is rejected") {
  const at::Tensor tied = parameter_of({1});
  CHECK_THROWS_WITH_AS(Learner({tied, tied}, 1),
                       "an optimizer has parameter 1 twice: pass a tensor that two modules share "
                       "once (DistributedDataParallel::parameters() does)",
                       std::invalid_argument);
}

TEST_CASE("an option out of range is named with its value") {
  CHECK_NOTHROW(check_option(true, "SGD", "lr", 1));
  CHECK_THROWS_WITH_AS(check_option(false, "SGD", "lr", -0.5), "SGD: invalid lr -0.5",
                       std::invalid_argument);
}

}  // namespace optimizer_test
