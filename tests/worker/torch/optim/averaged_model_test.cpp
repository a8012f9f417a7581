// SPDX-License-Identifier: BSD-3-Clause
// ddp_parity.py compares the averages with Python's.

#include "worker/torch/optim/averaged_model.h"

#include <torch/nn/modules/batchnorm.h>

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

namespace averaged_model_test {

using namespace cpprun;

namespace {

void set(torch::nn::BatchNorm1d& net, double value) {
  const at::NoGradGuard no_grad;
  for (auto& each : net->parameters()) each.fill_(value);
  net->running_mean.fill_(value);
}

float weight_of(torch::nn::BatchNorm1d& net) {
  return net->weight[0].item<float>();
}

}  // namespace

TEST_CASE("the mean of all updates, in the model while it is swapped in") {
  torch::nn::BatchNorm1d net(2);
  AveragedModel average(*net);
  for (const double value : {1, 2, 6}) {
    set(net, value);
    average.update();
  }
  CHECK(average.updates() == 3);
  {
    const auto averaged = average.swap_in();
    CHECK(weight_of(net) == doctest::Approx(3));
    CHECK(net->running_mean[0].item<float>() == 6);
  }
  CHECK(weight_of(net) == 6);
}

TEST_CASE("the exponential moving average, with buffers") {
  torch::nn::BatchNorm1d net(2);
  AveragedModel average(*net, {.decay = 0.5, .use_buffers = true});
  for (const double value : {8, 4}) {
    set(net, value);
    average.update();
  }
  const auto averaged = average.swap_in();
  CHECK(weight_of(net) == 6);
  CHECK(net->running_mean[0].item<float>() == 6);
}

TEST_CASE("a state continues in another object, and one of another model is rejected") {
  torch::nn::BatchNorm1d net(2);
  AveragedModel first(*net);
  set(net, 3);
  first.update();
  torch::nn::BatchNorm1d other(2);
  AveragedModel second(*other);
  second.load(first.state());
  CHECK(second.updates() == 1);
  set(other, 5);
  second.update();
  const auto averaged = second.swap_in();
  CHECK(weight_of(other) == 4);

  torch::nn::BatchNorm1d larger(3);
  AveragedModel third(*larger);
  CHECK_THROWS_AS(third.load(first.state()), StateError);
  CHECK(third.updates() == 0);
}

TEST_CASE("a decay out of range is rejected") {
  torch::nn::BatchNorm1d net(2);
  CHECK_THROWS_WITH_AS(AveragedModel(*net, {.decay = 1.5}),
                       "AveragedModel: decay must be from 0 to 1, not 1.5", std::invalid_argument);
  CHECK_THROWS_AS(AveragedModel(*net, {.decay = std::nan("")}), std::invalid_argument);
}

}  // namespace averaged_model_test
