// SPDX-License-Identifier: BSD-3-Clause
// ddp_parity.py compares a training with Python's.

#include "worker/torch/optim/grad_scaler.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <torch/optim/sgd.h>

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>

#include "worker/torch/optim/sgd.h"

namespace grad_scaler_test {

using namespace cpprun;

namespace {

at::Tensor parameter() {
  return at::ones({2}).set_requires_grad(true);
}

template <class Optimizer>
bool step(GradScaler& scaler, Optimizer& optimizer, const at::Tensor& weight, double factor) {
  weight.mutable_grad().reset();
  scaler.scale((weight * factor).sum()).backward();
  const bool stepped = scaler.step(optimizer);
  scaler.update();
  return stepped;
}

template <class Optimizer>
void skips_and_grows(Optimizer& optimizer, const at::Tensor& weight) {
  GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  CHECK(step(scaler, optimizer, weight, 1));
  CHECK(weight[0].item<float>() == 0.5F);
  CHECK_FALSE(step(scaler, optimizer, weight, std::numeric_limits<double>::infinity()));
  CHECK_FALSE(step(scaler, optimizer, weight, std::numeric_limits<double>::quiet_NaN()));
  CHECK(weight[0].item<float>() == 0.5F);
  CHECK(scaler.get_scale() == 2);
  CHECK(step(scaler, optimizer, weight, 1));
  CHECK(step(scaler, optimizer, weight, 0));
  CHECK(scaler.get_scale() == 4);
}

}  // namespace

TEST_CASE("steps with gradients that are not finite are skipped, and the scale adapts") {
  const at::Tensor ours = parameter();
  FusedSgd fused({ours}, {.lr = 0.5});
  skips_and_grows(fused, ours);
  const at::Tensor theirs = parameter();
  torch::optim::SGD plain({theirs}, torch::optim::SGDOptions(0.5));
  skips_and_grows(plain, theirs);
}

TEST_CASE("unscaled gradients can be seen before the step, once") {
  const at::Tensor weight = parameter();
  FusedSgd optimizer({weight}, {.lr = 1});
  GradScaler scaler;
  scaler.scale((weight * 3).sum()).backward();
  scaler.unscale(optimizer);
  CHECK(weight.grad()[0].item<float>() == 3);
  CHECK_THROWS_WITH_AS(scaler.unscale(optimizer),
                       "GradScaler: unscale() was called twice for one optimizer: call update() "
                       "between them",
                       std::logic_error);
  CHECK(scaler.step(optimizer));
  CHECK(weight[0].item<float>() == -2);
  CHECK_THROWS_AS(scaler.step(optimizer), std::logic_error);
  CHECK_THROWS_AS(scaler.unscale(optimizer), std::logic_error);
  scaler.update();
}

TEST_CASE("calls in another order, and half precision, are errors with advice") {
  const at::Tensor weight = parameter();
  FusedSgd optimizer({weight}, {.lr = 1});
  GradScaler scaler;
  CHECK_THROWS_WITH_AS(static_cast<void>(scaler.step(optimizer)),
                       "GradScaler: step() was called before scale(): call "
                       "scaler.scale(loss).backward() first",
                       std::logic_error);
  CHECK_THROWS_AS(scaler.update(), std::logic_error);
  const at::Tensor loss = scaler.scale(weight.sum());
  CHECK_THROWS_WITH_AS(static_cast<void>(scaler.step(optimizer)),
                       "GradScaler: no parameter of the optimizer has a gradient: call backward() "
                       "before step()",
                       std::logic_error);
  const at::Tensor half = at::ones({2}, at::kHalf).set_requires_grad(true);
  half.mutable_grad() = at::ones({2}, at::kHalf);
  FusedSgd of_half({half}, {.lr = 1});
  CHECK_THROWS_AS(scaler.unscale(of_half), std::logic_error);
  CHECK_THROWS_AS(GradScaler({.growth_factor = 1}), std::invalid_argument);
  CHECK_THROWS_AS(GradScaler({.backoff_factor = 1}), std::invalid_argument);
}

TEST_CASE("a state goes through a checkpoint and through Python's dict") {
  const at::Tensor weight = parameter();
  FusedSgd optimizer({weight}, {.lr = 1});
  GradScaler first({.init_scale = 8, .growth_interval = 2});
  step(first, optimizer, weight, 1);
  for (const bool python : {false, true}) {
    GradScaler second;
    python ? second.load_state_dict(first.state_dict()) : second.load(first.state());
    CHECK(second.get_scale() == 8);
    // The growth tracker came along: one more step lets the scale grow.
    step(second, optimizer, weight, 1);
    CHECK(second.get_scale() == 16);
  }
  GradScaler third;
  StateDict damaged = first.state();
  damaged.texts["scale"] = "-1";
  CHECK_THROWS_WITH_AS(third.load(damaged),
                       "the saved state is invalid: GradScaler: invalid scale -1", StateError);
  CHECK_THROWS_AS(third.load(StateDict()), StateError);
  CHECK_THROWS_AS(third.load_state_dict(c10::IValue(1.0)), StateError);
  CHECK(third.get_scale() == 65536);
}

TEST_CASE("a scaler that is not enabled passes everything through") {
  const at::Tensor weight = parameter();
  FusedSgd optimizer({weight}, {.lr = 1});
  GradScaler scaler({.enabled = false});
  CHECK(step(scaler, optimizer, weight, 1));
  CHECK(weight[0].item<float>() == 0);
  CHECK(scaler.get_scale() == 1);
  CHECK(scaler.state().texts.empty());
  scaler.load({});
}

}  // namespace grad_scaler_test
