// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/training.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace cpprun {

namespace {

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad().detach());
  }
  return gradients;
}

void check_limit(double limit, const char* name) {
  if (!(limit >= 0)) throw std::invalid_argument(fmt::format("{} must not be {}", name, limit));
}

}  // namespace

at::Tensor clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                          double norm_type) {
  check_limit(max_norm, "max_norm");
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return at::zeros({});
  std::vector<at::Tensor> norms = at::_foreach_norm(gradients, norm_type);
  for (at::Tensor& norm : norms) norm = norm.to(norms.front().device());
  at::Tensor total = at::linalg_vector_norm(at::stack(norms), norm_type);
  // Always multiplied, if need be by 1: a test would wait for the device.
  // Python divides a number by a tensor in the same way; the last bit depends on it.
  const at::Tensor factor = at::clamp((total + 1e-6).reciprocal() * max_norm, std::nullopt, 1.0);
  for (const at::Tensor& gradient : gradients) gradient.mul_(factor.to(gradient.device()));
  return total;
}

void clip_grad_value(const std::vector<at::Tensor>& parameters, double limit) {
  check_limit(limit, "limit");
  const at::NoGradGuard no_grad;
  for (const at::Tensor& gradient : gradients_of(parameters)) gradient.clamp_(-limit, limit);
}

Autocast::Autocast(c10::DeviceType device, at::ScalarType dtype, bool enabled)
    : device_(device),
      enabled_before_(at::autocast::is_autocast_enabled(device)),
      dtype_before_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_dtype(device, dtype);
  at::autocast::set_autocast_enabled(device, enabled);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  // The outermost one drops the cached casts of the weights, which change with every step.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
}

namespace {

void check_schedule(std::int64_t t, std::int64_t length, const char* name) {
  if (t < 0) throw std::invalid_argument(fmt::format("no learning rate for negative step {}", t));
  if (length < 1) {
    throw std::invalid_argument(fmt::format("{} must be above 0, not {}", name, length));
  }
}

}  // namespace

double step_lr(double base, std::int64_t t, std::int64_t step_size, double gamma) {
  check_schedule(t, step_size, "step_size");
  return base * std::pow(gamma, static_cast<double>(t / step_size));
}

double cosine_annealing_lr(double base, std::int64_t t, std::int64_t t_max, double eta_min) {
  check_schedule(t, t_max, "t_max");
  const double progress = static_cast<double>(t) / static_cast<double>(t_max);
  return eta_min + (base - eta_min) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

double linear_lr(double base, std::int64_t t, std::int64_t total, double start_factor,
                 double end_factor) {
  check_schedule(t, total, "total");
  const double progress = static_cast<double>(std::min(t, total)) / static_cast<double>(total);
  return base * (start_factor + (end_factor - start_factor) * progress);
}

double warmup_cosine_lr(double base, std::int64_t t, std::int64_t warmup, std::int64_t total,
                        double start_factor, double eta_min) {
  check_schedule(t, total - warmup, "total - warmup");
  if (t < warmup) return linear_lr(base, t, warmup, start_factor);
  return cosine_annealing_lr(base, t - warmup, total - warmup, eta_min);
}

}  // namespace cpprun
