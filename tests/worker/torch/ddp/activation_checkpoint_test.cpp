// SPDX-License-Identifier: BSD-3-Clause
// ddp_parity.py compares a training with Python's.

#include "worker/torch/ddp/activation_checkpoint.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <doctest/doctest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <stdexcept>

namespace activation_checkpoint_test {

using namespace cpprun;

namespace {

at::Tensor trained(const at::Tensor& tensor) {
  return tensor.set_requires_grad(true);
}

}  // namespace

TEST_CASE("gradients and random numbers are those of a plain backward") {
  const at::Tensor weight = trained(at::arange(12, at::kFloat).view({3, 4}));
  const auto layer = [&weight](const at::Tensor& x) {
    return at::dropout(at::linear(x, weight).sin(), 0.5, /*train=*/true);
  };
  std::vector<at::Tensor> plain;
  std::vector<at::Tensor> recomputed;
  for (auto* const found : {&plain, &recomputed}) {
    torch::manual_seed(7);
    weight.mutable_grad().reset();
    const at::Tensor x = trained(at::arange(8, at::kFloat).view({2, 4}));
    const at::Tensor y = found == &plain ? layer(x) : activation_checkpoint(layer, x);
    const at::Tensor next = at::rand({4});
    y.mul(y).sum().backward();
    *found = {y.detach(), x.grad(), weight.grad(), next, at::rand({4})};
  }
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CAPTURE(i);
    CHECK(plain[i].equal(recomputed[i]));
  }
}

TEST_CASE("the function runs twice, and without a gradient once") {
  int calls = 0;
  const at::Tensor weight = trained(at::ones({2}));
  const auto function = [&](const at::Tensor& x) {
    ++calls;
    return x * weight;
  };
  {
    const at::NoGradGuard no_grad;
    CHECK_FALSE(activation_checkpoint(function, at::ones({2})).requires_grad());
  }
  CHECK(calls == 1);
  // The input needs no gradient, as in a first layer.
  activation_checkpoint(function, at::ones({2})).sum().backward();
  CHECK(calls == 3);
  CHECK(weight.grad().equal(at::ones({2})));
}

TEST_CASE("several outputs, of which one is unused") {
  const at::Tensor x = trained(at::ones({2}));
  const auto outputs = activation_checkpoint_of(
      [](const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>{in[0] * 2, in[0] * 3, in[1]};
      },
      {x, at::ones({1})});
  REQUIRE(outputs.size() == 3);
  outputs[1].sum().backward();
  CHECK(x.grad().equal(at::ones({2}) * 3));
}

TEST_CASE("the second call has the autocast settings of the first") {
  const at::Tensor x = trained(at::ones({2, 2}));
  std::vector<at::ScalarType> types;
  at::Tensor y;
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  y = activation_checkpoint(
      [&types](const at::Tensor& in) {
        types.push_back(at::linear(in, in).scalar_type());
        return at::linear(in, in);
      },
      x);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  y.sum().backward();
  CHECK(types == std::vector{at::kBFloat16, at::kBFloat16});
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_CASE("gradients for chosen inputs are refused, as those of parameters are accumulated") {
  const at::Tensor x = trained(at::ones({2}));
  const at::Tensor y = activation_checkpoint([](const at::Tensor& in) { return in * 2; }, x);
  CHECK_THROWS_AS(torch::autograd::grad({y.sum()}, {x}), std::logic_error);
}

TEST_CASE("a function that returns something else the second time is an error") {
  int calls = 0;
  const auto outputs = activation_checkpoint_of(
      [&calls](const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>(static_cast<std::size_t>(++calls), in[0] * 2);
      },
      {trained(at::ones({2}))});
  CHECK_THROWS_WITH_AS(outputs[0].sum().backward(),
                       "activation_checkpoint: the function returned 1 tensors in the forward, and "
                       "2 in the backward: it must compute the same",
                       std::logic_error);
}

}  // namespace activation_checkpoint_test
