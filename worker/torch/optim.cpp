#include "worker/torch/optim.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace cpprun {
namespace {

struct Batch {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> momentum;
};

// The kernel takes tensors of one device and one type, and is told whether it is their first step.
using Kind = std::tuple<c10::DeviceType, int, at::ScalarType, bool>;

std::string momentum_name(std::size_t parameter) {
  return fmt::format("momentum.{}", parameter);
}

}  // namespace

FusedSgd::FusedSgd(std::vector<at::Tensor> parameters, const SgdOptions& options)
    : parameters_(std::move(parameters)), momentum_(parameters_.size()), options_(options) {
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    throw std::invalid_argument("Nesterov's SGD needs a momentum and no dampening");
  }
}

void FusedSgd::step() {
  const at::NoGradGuard no_grad;
  std::map<Kind, Batch> batches;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    // What took no part in the loss has no gradient, and stays as it is.
    if (!parameter.grad().defined()) continue;
    const bool first = !momentum_[i].defined();
    Batch& batch = batches[{parameter.device().type(), parameter.device().index(),
                            parameter.scalar_type(), first}];
    batch.parameters.push_back(parameter);
    batch.gradients.push_back(parameter.grad());
    if (options_.momentum != 0) {
      if (first) momentum_[i] = at::empty_like(parameter.grad());
      batch.momentum.push_back(momentum_[i]);
    }
  }
  for (auto& [kind, batch] : batches) {
    const bool first = options_.momentum != 0 && std::get<bool>(kind);
    at::_fused_sgd_(batch.parameters, batch.gradients, batch.momentum, options_.weight_decay,
                    options_.momentum, options_.lr, options_.dampening, options_.nesterov,
                    /*maximize=*/false, first);
  }
}

void FusedSgd::zero_grad(bool set_to_none) {
  zero_gradients(parameters_, set_to_none);
}

StateDict FusedSgd::state() const {
  StateDict state;
  state.set("lr", options_.lr);
  for (std::size_t i = 0; i < momentum_.size(); ++i) {
    if (momentum_[i].defined()) state.tensors[momentum_name(i)] = momentum_[i];
  }
  return state;
}

void FusedSgd::load(const StateDict& state) {
  // Not every parameter has had a step, so what is there decides what is expected.
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
  options_.lr = lr;
}

void zero_gradients(const std::vector<at::Tensor>& parameters, bool set_to_none) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) continue;
    if (set_to_none) {
      gradient = at::Tensor();
    } else {
      // zero_ keeps a view a view; torch::optim's detach_ would throw on one.
      gradient.zero_();
    }
  }
}

}  // namespace cpprun
