// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <stdexcept>

namespace cpprun {

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
