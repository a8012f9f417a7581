// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <stdexcept>
#include <unordered_set>

namespace cpprun {

void check_option(bool right, const char* optimizer, const char* name, double value) {
  if (right) return;
  throw std::invalid_argument(fmt::format("{}: invalid {} {}", optimizer, name, value));
}

void require_each_once(const std::vector<at::Tensor>& parameters) {
  std::unordered_set<const void*> seen;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].defined() && !seen.insert(parameters[i].unsafeGetTensorImpl()).second) {
      throw std::invalid_argument(
          fmt::format("an optimizer has parameter {} twice: pass a tensor that two modules share "
                      "once (DistributedDataParallel::parameters() does)",
                      i));
    }
  }
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
