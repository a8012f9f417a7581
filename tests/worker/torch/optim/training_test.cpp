// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/training.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tensor.h>
#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>

namespace training_test {

using namespace cpprun;
using doctest::Approx;

namespace {

at::Tensor with_gradient(double value) {
  at::Tensor parameter = at::full({2}, 0.0).set_requires_grad(true);
  parameter.mutable_grad() = at::full({2}, value);
  return parameter;
}

float gradient_of(const at::Tensor& parameter) {
  return parameter.grad()[0].item<float>();
}

}  // namespace

TEST_CASE("gradients beyond the norm are scaled together, and their norm is returned") {
  const at::Tensor first = with_gradient(3);
  const at::Tensor second = with_gradient(4);
  const at::Tensor unused = at::full({2}, 0.0).set_requires_grad(true);
  CHECK(clip_grad_norm({first, unused, second}, 1).item<float>() == Approx(7.0710678));
  CHECK(gradient_of(first) == Approx(3 / 7.0710678));
  CHECK(gradient_of(second) == Approx(4 / 7.0710678));
}

TEST_CASE("gradients within the norm stay unchanged, and no gradients have the norm zero") {
  const at::Tensor parameter = with_gradient(3);
  CHECK(clip_grad_norm({parameter}, 100).item<float>() == Approx(4.2426407));
  CHECK(gradient_of(parameter) == 3);
  CHECK(clip_grad_norm({at::full({1}, 0.0)}, 1).item<float>() == 0);
}

TEST_CASE("the largest element can be the norm") {
  const at::Tensor parameter = with_gradient(3);
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(clip_grad_norm({parameter}, 1.5, infinity).item<float>() == 3);
  CHECK(gradient_of(parameter) == Approx(1.5));
}

TEST_CASE("values are clipped one by one") {
  const at::Tensor parameter = with_gradient(-3);
  clip_grad_value({parameter}, 0.5);
  CHECK(gradient_of(parameter) == -0.5);
  CHECK_THROWS_AS(clip_grad_value({parameter}, -1), std::invalid_argument);
}

TEST_CASE("products use the small type within autocast, and the original type outside") {
  const at::Tensor weight = at::full({4, 4}, 0.5);
  const auto type = [&] { return at::linear(weight, weight).scalar_type(); };
  {
    const Autocast cast(c10::kCPU);
    const bool small = type() == at::kBFloat16;
    CHECK(small);
    {
      const Autocast off(c10::kCPU, at::kBFloat16, /*enabled=*/false);
      const bool full = type() == at::kFloat;
      CHECK(full);
    }
    const bool small_again = type() == at::kBFloat16;
    CHECK(small_again);
  }
  const bool full = type() == at::kFloat;
  CHECK(full);
  CHECK_FALSE(at::autocast::is_autocast_enabled(c10::kCPU));
}

}  // namespace training_test
