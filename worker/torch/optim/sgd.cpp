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

std::string momentum_name(std::size_t parameter) {
  return fmt::format("momentum.{}", parameter);
}

}  // namespace

FusedSgd::FusedSgd(std::vector<at::Tensor> parameters, const SgdOptions& options)
    : FusedOptimizer(std::move(parameters), options.lr),
      options_(options),
      momentum_(parameters_.size()) {
  check_option(options.lr >= 0, "SGD", "lr", options.lr);
  check_option(options.momentum >= 0, "SGD", "momentum", options.momentum);
  check_option(options.weight_decay >= 0, "SGD", "weight_decay", options.weight_decay);
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    throw std::invalid_argument("Nesterov momentum requires a momentum and zero dampening");
  }
}

void FusedSgd::step() {
  const at::NoGradGuard no_grad;
  // The kernel has a flag for the first step.
  std::map<std::pair<Kind, bool>, Batch> batches;
  for_each_with_gradient([&](std::size_t i, const at::Tensor& parameter, const Kind& kind) {
    const bool first = options_.momentum != 0 && !momentum_[i].defined();
    Batch& batch = batches[{kind, first}];
    batch.parameters.push_back(parameter);
    batch.gradients.push_back(parameter.grad());
    if (first) momentum_[i] = at::empty_like(parameter.grad());
    if (options_.momentum != 0) batch.momentum.push_back(momentum_[i]);
  });
  for (auto& [kind, batch] : batches) {
    at::_fused_sgd_(batch.parameters, batch.gradients, batch.momentum, options_.weight_decay,
                    options_.momentum, lr(), options_.dampening, options_.nesterov,
                    /*maximize=*/false, /*is_first_step=*/kind.second);
  }
}

StateDict FusedSgd::state() const {
  StateDict state;
  state.set("lr", lr());
  for (std::size_t i = 0; i < momentum_.size(); ++i) {
    if (momentum_[i].defined()) state.tensors[momentum_name(i)] = momentum_[i];
  }
  return state;
}

void FusedSgd::load(const StateDict& state) {
  // Parameters without a step have no momentum, so only the saved ones are expected.
  TensorsByName fresh;
  std::vector<at::Tensor> momentum(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!state.tensors.contains(momentum_name(i))) continue;
    momentum[i] = at::empty_like(parameters_[i]);
    fresh.emplace_back(momentum_name(i), momentum[i].detach());
  }
  const double lr = state.real("lr");
  copy_into(fresh, state, "the optimizer");
  momentum_ = std::move(momentum);
  set_lr(lr);
}

}  // namespace cpprun
