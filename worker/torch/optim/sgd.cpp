// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/sgd.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>

namespace cpprun {
namespace {

struct Batch {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> momentum;
};

constexpr const char* subject = "the optimizer";

void check(const SgdOptions& options) {
  check_option(options.lr >= 0, "SGD", "lr", options.lr);
  check_option(options.momentum >= 0, "SGD", "momentum", options.momentum);
  check_option(options.weight_decay >= 0, "SGD", "weight_decay", options.weight_decay);
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    throw std::invalid_argument("Nesterov momentum requires a momentum and zero dampening");
  }
}

}  // namespace

FusedSgd::FusedSgd(std::vector<at::Tensor> parameters, const SgdOptions& options)
    : FusedSgd(std::vector<Group>{{std::move(parameters), options}}) {}

FusedSgd::FusedSgd(std::vector<Group> groups)
    : FusedOptimizer(std::move(groups)), momentum_(parameters_.size()) {
  for (const SgdOptions& options : options_) check(options);
}

void FusedSgd::step() {
  const at::NoGradGuard no_grad;
  // The kernel has a flag for the first step.
  std::map<std::pair<Kind, bool>, Batch> batches;
  for_each_with_gradient([&](std::size_t i, const at::Tensor& parameter, const Kind& kind) {
    const bool with_momentum = options_[kind.group].momentum != 0;
    const bool first = with_momentum && !momentum_[i].defined();
    Batch& batch = batches[{kind, first}];
    batch.parameters.push_back(parameter);
    batch.gradients.push_back(parameter.grad());
    if (first) momentum_[i] = at::empty_like(parameter.grad());
    if (with_momentum) batch.momentum.push_back(momentum_[i]);
  });
  for (auto& [kind, batch] : batches) {
    const SgdOptions& options = options_[kind.first.group];
    at::_fused_sgd_(batch.parameters, batch.gradients, batch.momentum, options.weight_decay,
                    options.momentum, options.lr, options.dampening, options.nesterov,
                    /*maximize=*/false, /*is_first_step=*/kind.second);
  }
}

OptimizerState FusedSgd::saved() const {
  OptimizerState state;
  for (const at::Tensor& momentum : momentum_) {
    auto& tensors = state.parameters.emplace_back();
    if (momentum.defined()) tensors["momentum_buffer"] = momentum;
  }
  for (std::size_t group = 0; group < options_.size(); ++group) {
    const SgdOptions& options = options_[group];
    state.groups.push_back({{{"lr", options.lr},
                             {"momentum", options.momentum},
                             {"dampening", options.dampening},
                             {"weight_decay", options.weight_decay},
                             {"nesterov", options.nesterov},
                             {"maximize", false},
                             {"differentiable", false},
                             {"foreach", c10::IValue()},
                             {"fused", true}},
                            sizes_[group]});
  }
  return state;
}

void FusedSgd::take(const OptimizerState& state, std::vector<SgdOptions> options) {
  std::vector<at::Tensor> momentum(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (state.parameters[i].empty()) continue;  // no step, or no momentum
    momentum[i] = state.copies(i, {"momentum_buffer"}, parameters_[i], subject).front();
  }
  for (const SgdOptions& each : options) check_saved([&] { check(each); });
  momentum_ = std::move(momentum);
  options_ = std::move(options);
}

void FusedSgd::load(const StateDict& state) {
  const auto found = OptimizerState::from_checkpoint(state, sizes_, subject);
  auto options = options_;
  for (std::size_t group = 0; group < options.size(); ++group) {
    options[group].lr = found.real(group, "lr");
  }
  take(found, std::move(options));
}

void FusedSgd::load_state_dict(const c10::IValue& state) {
  const auto found = OptimizerState::from_python(state, sizes_, subject);
  std::vector<SgdOptions> options;
  for (std::size_t group = 0; group < options_.size(); ++group) {
    options.push_back({.lr = found.real(group, "lr"),
                       .momentum = found.real(group, "momentum"),
                       .dampening = found.real(group, "dampening"),
                       .weight_decay = found.real(group, "weight_decay"),
                       .nesterov = found.boolean(group, "nesterov")});
  }
  take(found, std::move(options));
}

}  // namespace cpprun
