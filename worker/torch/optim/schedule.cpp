// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace cpprun {
namespace {

void check(std::int64_t t, std::int64_t length, const char* name) {
  if (t < 0) throw std::invalid_argument(fmt::format("no learning rate for negative step {}", t));
  if (length < 1) {
    throw std::invalid_argument(fmt::format("{} must be above 0, not {}", name, length));
  }
}

}  // namespace

double step_lr(double base, std::int64_t t, std::int64_t step_size, double gamma) {
  check(t, step_size, "step_size");
  return base * std::pow(gamma, static_cast<double>(t / step_size));
}

double cosine_annealing_lr(double base, std::int64_t t, std::int64_t t_max, double eta_min) {
  check(t, t_max, "t_max");
  const double progress = static_cast<double>(t) / static_cast<double>(t_max);
  return eta_min + (base - eta_min) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

double linear_lr(double base, std::int64_t t, std::int64_t total, double start_factor,
                 double end_factor) {
  check(t, total, "total");
  const double progress = static_cast<double>(std::min(t, total)) / static_cast<double>(total);
  return base * (start_factor + (end_factor - start_factor) * progress);
}

double warmup_cosine_lr(double base, std::int64_t t, std::int64_t warmup, std::int64_t total,
                        double start_factor, double eta_min) {
  check(t, total - warmup, "total - warmup");
  if (t < warmup) return linear_lr(base, t, warmup, start_factor);
  return cosine_annealing_lr(base, t - warmup, total - warmup, eta_min);
}

}  // namespace cpprun
