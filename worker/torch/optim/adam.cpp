// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/adam.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <map>
#include <utility>

namespace cpprun {
namespace {

struct KernelInputs {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> averages;
  std::vector<at::Tensor> squares;
  std::vector<at::Tensor> square_maxima;
};

void run_kernel(const KernelInputs& batch, std::int64_t steps, double lr,
                const AdamOptions& options) {
  const auto counter = at::full({}, steps, batch.parameters.front().options().dtype(at::kFloat));
  const std::vector<at::Tensor> counters(batch.parameters.size(), counter);
  const auto kernel = [&](auto function) {
    function(batch.parameters, batch.gradients, batch.averages, batch.squares, batch.square_maxima,
             counters, lr, options.beta1, options.beta2, options.weight_decay, options.eps,
             options.amsgrad, /*maximize=*/false, std::optional<at::Tensor>(),
             std::optional<at::Tensor>());
  };
  if (options.decoupled_weight_decay) {
    kernel([](auto&&... all) { at::_fused_adamw_(all...); });
  } else {
    kernel([](auto&&... all) { at::_fused_adam_(all...); });
  }
}

std::string named(const char* what, std::size_t parameter) {
  return fmt::format("{}.{}", what, parameter);
}

}  // namespace

FusedAdam::FusedAdam(std::vector<at::Tensor> parameters, const AdamOptions& options)
    : FusedOptimizer(std::move(parameters), options.lr),
      options_(options),
      moments_(parameters_.size()) {
  check_option(options.lr >= 0, "Adam", "lr", options.lr);
  check_option(options.beta1 >= 0 && options.beta1 < 1, "Adam", "beta1", options.beta1);
  check_option(options.beta2 >= 0 && options.beta2 < 1, "Adam", "beta2", options.beta2);
  check_option(options.eps >= 0, "Adam", "eps", options.eps);
  check_option(options.weight_decay >= 0, "Adam", "weight_decay", options.weight_decay);
}

void FusedAdam::start(std::size_t parameter) {
  Moments& moments = moments_[parameter];
  // detach(): the averages are not differentiated.
  const at::Tensor like = parameters_[parameter].detach();
  moments.average = at::zeros_like(like);
  moments.square = at::zeros_like(like);
  if (options_.amsgrad) moments.square_max = at::zeros_like(like);
}

void FusedAdam::step() {
  const at::NoGradGuard no_grad;
  // Parameters with the same number of steps share one counter.
  std::map<std::pair<Kind, std::int64_t>, KernelInputs> batches;
  for_each_with_gradient([&](std::size_t i, const at::Tensor& parameter, const Kind& kind) {
    Moments& moments = moments_[i];
    if (moments.steps == 0) start(i);
    ++moments.steps;
    KernelInputs& batch = batches[{kind, moments.steps}];
    batch.parameters.push_back(parameter);
    batch.gradients.push_back(parameter.grad());
    batch.averages.push_back(moments.average);
    batch.squares.push_back(moments.square);
    if (options_.amsgrad) batch.square_maxima.push_back(moments.square_max);
  });
  for (const auto& [kind, batch] : batches) run_kernel(batch, kind.second, lr(), options_);
}

StateDict FusedAdam::state() const {
  StateDict state;
  state.set("lr", lr());
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    const Moments& moments = moments_[i];
    if (moments.steps == 0) continue;
    state.set(named("step", i), moments.steps);
    state.tensors[named("exp_avg", i)] = moments.average;
    state.tensors[named("exp_avg_sq", i)] = moments.square;
    if (options_.amsgrad) state.tensors[named("max_exp_avg_sq", i)] = moments.square_max;
  }
  return state;
}

void FusedAdam::load(const StateDict& state) {
  FusedAdam fresh(parameters_, options_);
  fresh.set_lr(state.real("lr"));
  TensorsByName targets;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!state.texts.contains(named("step", i))) continue;
    Moments& moments = fresh.moments_[i];
    moments.steps = state.integer(named("step", i));
    fresh.start(i);
    targets.emplace_back(named("exp_avg", i), moments.average);
    targets.emplace_back(named("exp_avg_sq", i), moments.square);
    if (options_.amsgrad) targets.emplace_back(named("max_exp_avg_sq", i), moments.square_max);
  }
  copy_into(targets, state, "the optimizer");
  *this = std::move(fresh);
}

}  // namespace cpprun
