// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Learning rates as functions of the step (or the epoch). They are PyTorch's schedules of the same
// names without state: a run that resumes at step `t` computes the rate of `t`, and nothing needs
// saving.

#include <cstdint>

namespace cpprun {

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
