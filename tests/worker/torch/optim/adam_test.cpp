// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/adam.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <doctest/doctest.h>

#include <stdexcept>

namespace adam_test {

using namespace cpprun;

// That every step equals Python's, bit for bit, is tested by parity_test.py.

namespace {

at::Tensor parameter_of(double value) {
  return at::full({3}, value).set_requires_grad(true);
}

void set_gradient(const at::Tensor& parameter, double value) {
  parameter.mutable_grad() = at::full({3}, value);
}

float first(const at::Tensor& tensor) {
  return tensor.detach()[0].item<float>();
}

}  // namespace

TEST_CASE("the first step depends on the learning rate, not on the size of the gradient") {
  const at::Tensor parameter = parameter_of(1);
  FusedAdam adam({parameter}, {.lr = 0.1});
  set_gradient(parameter, 1000);
  adam.step();
  CHECK(first(parameter) == doctest::Approx(0.9));
}

TEST_CASE("AdamW decays the weights themselves") {
  const at::Tensor parameter = parameter_of(1);
  FusedAdam adam({parameter}, adamw_options(0.1, 0.5));
  set_gradient(parameter, 0);
  adam.step();
  CHECK(first(parameter) == doctest::Approx(1 - 0.1 * 0.5));
}

TEST_CASE("a run that loads its state continues as if it had never stopped") {
  const at::Tensor whole = parameter_of(1);
  const at::Tensor resumed = parameter_of(1);
  FusedAdam adam({whole}, {.lr = 0.1, .amsgrad = true});
  FusedAdam before({resumed}, {.lr = 0.1, .amsgrad = true});
  for (const double gradient : {0.5, -1.0}) {
    set_gradient(whole, gradient);
    adam.step();
    set_gradient(resumed, gradient);
    before.step();
  }
  FusedAdam after({resumed}, {.lr = 7, .amsgrad = true});
  after.load(before.state());
  CHECK(after.lr() == 0.1);
  set_gradient(whole, 2);
  adam.step();
  set_gradient(resumed, 2);
  after.step();
  CHECK(first(whole) == first(resumed));
}

TEST_CASE("a parameter whose gradient comes late starts its own count") {
  const at::Tensor used = parameter_of(1);
  const at::Tensor late = parameter_of(1);
  FusedAdam adam({used, late}, {.lr = 0.1});
  set_gradient(used, 1);
  adam.step();
  CHECK(first(late) == 1);
  set_gradient(late, 1);
  adam.step();
  CHECK(first(late) == doctest::Approx(0.9));
}

TEST_CASE("a state of other parameters is rejected and changes nothing") {
  const at::Tensor parameter = parameter_of(1);
  FusedAdam adam({parameter}, {.lr = 0.1});
  set_gradient(parameter, 1);
  adam.step();
  const at::Tensor other = at::full({5}, 1.0).set_requires_grad(true);
  FusedAdam wrong({other}, {.lr = 0.3});
  CHECK_THROWS_AS(wrong.load(adam.state()), StateError);
  CHECK(wrong.lr() == 0.3);
}

TEST_CASE("options out of range are rejected with their name") {
  CHECK_THROWS_WITH_AS(FusedAdam({parameter_of(1)}, {.beta1 = 1}), "Adam: invalid beta1 1",
                       std::invalid_argument);
  CHECK_THROWS_AS(FusedAdam({parameter_of(1)}, {.lr = -1}), std::invalid_argument);
}

}  // namespace adam_test
