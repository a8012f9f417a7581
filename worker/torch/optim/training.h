// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Helpers for a training step, under PyTorch's names.

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include <vector>

namespace cpprun {

// torch.nn.utils.clip_grad_norm_: scales all gradients so that their total norm is at most
// `max_norm`. Returns the norm before. After DDP's backward all ranks have the same gradients, so
// they clip equally without communication.
at::Tensor clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                          double norm_type = 2);

// torch.nn.utils.clip_grad_value_: clamps every element to [-limit, limit].
void clip_grad_value(const std::vector<at::Tensor>& parameters, double limit);

// torch.autocast: during its lifetime, matrix products and convolutions on this device use `dtype`,
// and operations that need more range use float. Call backward outside of it. bfloat16 has float's
// range, so it needs no scaler.
class Autocast {
 public:
  explicit Autocast(c10::DeviceType device, at::ScalarType dtype = at::kBFloat16,
                    bool enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType device_;
  bool enabled_before_;
  at::ScalarType dtype_before_;
};

}  // namespace cpprun
