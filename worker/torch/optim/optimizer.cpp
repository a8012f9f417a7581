// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <stdexcept>

namespace cpprun {

void FusedOptimizer::zero_grad(bool set_to_none) {
  zero_gradients(parameters_, set_to_none);
}

void FusedOptimizer::for_each_with_gradient(
    const std::function<void(std::size_t, const at::Tensor&, const Kind&)>& take) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    if (!parameter.grad().defined()) continue;
    const auto device = parameter.device();
    take(i, parameter, {device.type(), device.index(), parameter.scalar_type()});
  }
}

void check_option(bool right, const char* optimizer, const char* name, double value) {
  if (right) return;
  throw std::invalid_argument(fmt::format("{}: invalid {} {}", optimizer, name, value));
}

void zero_gradients(const std::vector<at::Tensor>& parameters, bool set_to_none) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) continue;
    if (set_to_none) {
      gradient = at::Tensor();
    } else {
      // zero_ keeps a view; torch::optim's detach_ would throw on one.
      gradient.zero_();
    }
  }
}

}  // namespace cpprun
