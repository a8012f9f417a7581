// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Small tools around a training step, under PyTorch's names.

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include <vector>

namespace cpprun {

// torch.nn.utils.clip_grad_norm_: scales all gradients so that their norm together is at most
// `max_norm`, and returns what it was. After DDP's backward every rank holds the same gradients, so
// the ranks clip alike without a word.
at::Tensor clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                          double norm_type = 2);

// torch.nn.utils.clip_grad_value_: every element into [-limit, limit].
void clip_grad_value(const std::vector<at::Tensor>& parameters, double limit);

// torch.autocast: while it lives, matrix products and convolutions on this device compute in
// `dtype`, and what needs more range in float. Backward belongs outside of it. bfloat16 has float's
// range: no scaler is needed.
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
