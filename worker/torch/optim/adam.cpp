// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/adam.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <map>
#include <stdexcept>
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

void run_kernel(const KernelInputs& batch, std::int64_t steps, const AdamOptions& options) {
  const auto counter = at::full({}, steps, batch.parameters.front().options().dtype(at::kFloat));
  const std::vector<at::Tensor> counters(batch.parameters.size(), counter);
  const auto kernel = [&](auto function) {
    function(batch.parameters, batch.gradients, batch.averages, batch.squares, batch.square_maxima,
             counters, options.lr, options.beta1, options.beta2, options.weight_decay, options.eps,
             options.amsgrad, /*maximize=*/false, std::optional<at::Tensor>(),
             std::optional<at::Tensor>());
  };
  if (options.decoupled_weight_decay) {
    kernel([](auto&&... all) { at::_fused_adamw_(all...); });
  } else {
    kernel([](auto&&... all) { at::_fused_adam_(all...); });
  }
}

constexpr const char* subject = "the optimizer";

void check(const AdamOptions& options) {
  check_option(options.lr >= 0, "Adam", "lr", options.lr);
  check_option(options.beta1 >= 0 && options.beta1 < 1, "Adam", "beta1", options.beta1);
  check_option(options.beta2 >= 0 && options.beta2 < 1, "Adam", "beta2", options.beta2);
  check_option(options.eps >= 0, "Adam", "eps", options.eps);
  check_option(options.weight_decay >= 0, "Adam", "weight_decay", options.weight_decay);
}

}  // namespace

FusedAdam::FusedAdam(std::vector<at::Tensor> parameters, const AdamOptions& options)
    : FusedAdam(std::vector<Group>{{std::move(parameters), options}}) {}

FusedAdam::FusedAdam(std::vector<Group> groups)
    : FusedOptimizer(std::move(groups)), moments_(parameters_.size()) {
  for (const AdamOptions& options : options_) {
    check(options);
    if (options.decoupled_weight_decay != options_.front().decoupled_weight_decay) {
      throw std::invalid_argument("Adam: groups must agree on decoupled_weight_decay");
    }
  }
}

void FusedAdam::step() {
  const at::NoGradGuard no_grad;
  // Parameters with the same number of steps share one counter.
  std::map<std::pair<Kind, std::int64_t>, KernelInputs> batches;
  for_each_with_gradient([&](std::size_t i, const at::Tensor& parameter, const Kind& kind) {
    Moments& moments = moments_[i];
    const bool amsgrad = options_[kind.group].amsgrad;
    if (moments.steps == 0) {
      // detach(): the averages are not differentiated.
      moments.average = at::zeros_like(parameter.detach());
      moments.square = at::zeros_like(parameter.detach());
      if (amsgrad) moments.square_max = at::zeros_like(parameter.detach());
    }
    ++moments.steps;
    KernelInputs& batch = batches[{kind, moments.steps}];
    batch.parameters.push_back(parameter);
    batch.gradients.push_back(parameter.grad());
    batch.averages.push_back(moments.average);
    batch.squares.push_back(moments.square);
    if (amsgrad) batch.square_maxima.push_back(moments.square_max);
  });
  for (const auto& [kind, batch] : batches) {
    run_kernel(batch, kind.second, options_[kind.first.group]);
  }
}

OptimizerState FusedAdam::saved() const {
  OptimizerState state;
  for (const Moments& moments : moments_) {
    auto& tensors = state.parameters.emplace_back();
    if (moments.steps == 0) continue;
    tensors["step"] = at::full({}, moments.steps, at::kDouble);
    tensors["exp_avg"] = moments.average;
    tensors["exp_avg_sq"] = moments.square;
    if (moments.square_max.defined()) tensors["max_exp_avg_sq"] = moments.square_max;
  }
  for (std::size_t group = 0; group < options_.size(); ++group) {
    const AdamOptions& options = options_[group];
    state.groups.push_back({{{"lr", options.lr},
                             {"betas", c10::ivalue::Tuple::create(options.beta1, options.beta2)},
                             {"eps", options.eps},
                             {"weight_decay", options.weight_decay},
                             {"amsgrad", options.amsgrad},
                             {"decoupled_weight_decay", options.decoupled_weight_decay},
                             {"maximize", false},
                             {"capturable", false},
                             {"differentiable", false},
                             {"foreach", c10::IValue()},
                             {"fused", true}},
                            sizes_[group]});
  }
  return state;
}

void FusedAdam::take(const OptimizerState& state, std::vector<AdamOptions> options) {
  for (const AdamOptions& each : options) check_saved([&] { check(each); });
  std::vector<Moments> moments(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (state.parameters[i].empty() || state.steps(i, subject) == 0) continue;  // no step
    std::vector<std::string> names{"exp_avg", "exp_avg_sq"};
    if (options[group_of_[i]].amsgrad) names.emplace_back("max_exp_avg_sq");
    const auto copies = state.copies(i, names, parameters_[i], subject);
    moments[i] = {.steps = state.steps(i, subject),
                  .average = copies[0],
                  .square = copies[1],
                  .square_max = copies.size() > 2 ? copies[2] : at::Tensor()};
  }
  moments_ = std::move(moments);
  options_ = std::move(options);
}

void FusedAdam::load(const StateDict& state) {
  const auto found = OptimizerState::from_checkpoint(state, sizes_, subject);
  auto options = options_;
  for (std::size_t group = 0; group < options.size(); ++group) {
    options[group].lr = found.real(group, "lr");
  }
  take(found, std::move(options));
}

void FusedAdam::load_state_dict(const c10::IValue& state) {
  const auto found = OptimizerState::from_python(state, sizes_, subject);
  auto options = options_;
  for (std::size_t group = 0; group < options.size(); ++group) {
    const auto [beta1, beta2] = found.pair(group, "betas");
    // Before PyTorch 2.8, Adam and AdamW did not say which they are.
    const auto& saved = found.groups[group].options;
    if (saved.contains("decoupled_weight_decay") &&
        found.boolean(group, "decoupled_weight_decay") != options[group].decoupled_weight_decay) {
      throw StateError(
          fmt::format("the optimizer does not match the saved state: it is {}, the state is {}'s",
                      options[group].decoupled_weight_decay ? "AdamW" : "Adam",
                      options[group].decoupled_weight_decay ? "Adam" : "AdamW"));
    }
    options[group] = {.lr = found.real(group, "lr"),
                      .beta1 = beta1,
                      .beta2 = beta2,
                      .eps = found.real(group, "eps"),
                      .weight_decay = found.real(group, "weight_decay"),
                      .amsgrad = found.boolean(group, "amsgrad"),
                      .decoupled_weight_decay = options[group].decoupled_weight_decay};
  }
  take(found, std::move(options));
}

}  // namespace cpprun
