// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/sgd.h"

#include <ATen/ops/tensor.h>
#include <doctest/doctest.h>

#include <stdexcept>

namespace sgd_test {

using namespace cpprun;

namespace {

at::Tensor parameter_of(std::initializer_list<float> values) {
  return at::tensor(std::vector<float>(values)).set_requires_grad(true);
}

void set_gradient(const at::Tensor& parameter, std::initializer_list<float> values) {
  parameter.mutable_grad() = at::tensor(std::vector<float>(values));
}

void check_values(const at::Tensor& tensor, std::initializer_list<float> values) {
  const at::Tensor expected = at::tensor(std::vector<float>(values));
  INFO(tensor.detach().numel());
  CHECK(tensor.detach().allclose(expected, 1e-6, 1e-7));
}

}  // namespace

TEST_CASE("three steps with momentum equal those of torch.optim.SGD") {
  const at::Tensor parameter = parameter_of({1, 2, 3});
  FusedSgd sgd({parameter}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  set_gradient(parameter, {0.5F, -1, 2});
  sgd.step();
  check_values(parameter, {0.9031000F, 2.1861999F, 2.6143000F});
  set_gradient(parameter, {1, -2, 4});
  sgd.step();
  check_values(parameter, {0.6700741F, 2.6414261F, 1.6849028F});
  set_gradient(parameter, {1.5F, -3, 6});
  sgd.step();
  check_values(parameter, {0.2648905F, 3.4380786F, 0.0675968F});
}

TEST_CASE("without momentum a step follows the gradient") {
  const at::Tensor parameter = parameter_of({1, 1});
  FusedSgd sgd({parameter}, {.lr = 0.5});
  set_gradient(parameter, {1, -1});
  sgd.step();
  check_values(parameter, {0.5F, 1.5F});
  sgd.set_lr(0.25);
  sgd.step();
  check_values(parameter, {0.25F, 1.75F});
}

TEST_CASE("a parameter without a gradient stays, and starts its momentum when it gets one") {
  const at::Tensor used = parameter_of({1});
  const at::Tensor late = parameter_of({1});
  FusedSgd sgd({used, late}, {.lr = 1, .momentum = 0.5});
  set_gradient(used, {0.25F});
  sgd.step();
  check_values(late, {1});
  set_gradient(late, {0.25F});
  sgd.step();
  check_values(used, {0.375F});
  check_values(late, {0.75F});
}

TEST_CASE("SGD options out of range are rejected with their name") {
  CHECK_THROWS_WITH_AS(FusedSgd({parameter_of({1})}, {.lr = -1}), "SGD: invalid lr -1",
                       std::invalid_argument);
  CHECK_THROWS_AS(FusedSgd({parameter_of({1})}, {.momentum = -0.5}), std::invalid_argument);
}

TEST_CASE("Nesterov without momentum is rejected") {
  CHECK_THROWS_AS(FusedSgd({parameter_of({1})}, {.nesterov = true}), std::invalid_argument);
}

}  // namespace sgd_test
