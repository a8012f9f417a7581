// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Helpers for a training step, and learning rates, under PyTorch's names.

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include <cstdint>
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

// Learning rates as functions of the step (or the epoch). They are PyTorch's schedules of the same
// names without state: a run that resumes at step `t` computes the rate of `t`, and nothing needs
// saving.

// torch.optim.lr_scheduler.StepLR: multiplies by `gamma` every `step_size` steps.
double step_lr(double base, std::int64_t t, std::int64_t step_size, double gamma = 0.1);

// CosineAnnealingLR: half a cosine from `base` down to `eta_min` at `t_max`.
double cosine_annealing_lr(double base, std::int64_t t, std::int64_t t_max, double eta_min = 0);

// LinearLR: from `start_factor` to `end_factor` times `base` within `total` steps.
double linear_lr(double base, std::int64_t t, std::int64_t total, double start_factor = 1.0 / 3,
                 double end_factor = 1);

// SequentialLR of the two: a linear warm-up of `warmup` steps, then a cosine until `total`.
double warmup_cosine_lr(double base, std::int64_t t, std::int64_t warmup, std::int64_t total,
                        double start_factor = 1.0 / 3, double eta_min = 0);

}  // namespace cpprun
