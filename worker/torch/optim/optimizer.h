// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <compare>
#include <functional>
#include <vector>

namespace cpprun {

// The parameters and the learning rate of the fused optimizers. A step is one call of ATen's fused
// kernel per kind of tensor instead of a loop over parameters, with the arithmetic of PyTorch's
// fused optimizer. Unlike torch::optim's, zero_grad() also supports gradients that are views of
// DDP's buckets.
class FusedOptimizer {
 public:
  void zero_grad(bool set_to_none = false);
  void set_lr(double lr) { lr_ = lr; }
  double lr() const { return lr_; }

 protected:
  FusedOptimizer(std::vector<at::Tensor> parameters, double lr)
      : parameters_(std::move(parameters)), lr_(lr) {}

  // One kernel call takes tensors of one device and one type.
  struct Kind {
    c10::DeviceType device{};
    int index = 0;
    at::ScalarType type{};
    auto operator<=>(const Kind&) const = default;
  };
  // Skips parameters without a gradient: they had no part in the loss and stay unchanged.
  void for_each_with_gradient(
      const std::function<void(std::size_t, const at::Tensor&, const Kind&)>& take) const;

  std::vector<at::Tensor> parameters_;
  double lr_;
};

// Throws std::invalid_argument with the option and its value, unless `right`.
void check_option(bool right, const char* optimizer, const char* name, double value);

// Sets every gradient to zero in place, or drops it.
void zero_gradients(const std::vector<at::Tensor>& parameters, bool set_to_none);

}  // namespace cpprun
