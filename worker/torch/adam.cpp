#include "worker/torch/adam.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "worker/torch/optim.h"

namespace cpprun {
namespace {

struct Batch {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> averages;
  std::vector<at::Tensor> squares;
  std::vector<at::Tensor> square_maxima;
};

// The kernel takes tensors of one device and one type; one counter serves those of equal age.
using Kind = std::tuple<c10::DeviceType, int, at::ScalarType, std::int64_t>;

void run_kernel(const Batch& batch, std::int64_t steps, const AdamOptions& options) {
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

std::string named(const char* what, std::size_t parameter) {
  return fmt::format("{}.{}", what, parameter);
}

void check(bool right, const char* name, double value) {
  if (!right) throw std::invalid_argument(fmt::format("Adam cannot work with {} {}", name, value));
}

}  // namespace

FusedAdam::FusedAdam(std::vector<at::Tensor> parameters, const AdamOptions& options)
    : parameters_(std::move(parameters)), moments_(parameters_.size()), options_(options) {
  check(options.lr >= 0, "lr", options.lr);
  check(options.beta1 >= 0 && options.beta1 < 1, "beta1", options.beta1);
  check(options.beta2 >= 0 && options.beta2 < 1, "beta2", options.beta2);
  check(options.eps >= 0, "eps", options.eps);
  check(options.weight_decay >= 0, "weight_decay", options.weight_decay);
}

void FusedAdam::start(std::size_t parameter) {
  Moments& moments = moments_[parameter];
  // detach(): the averages are no part of what is differentiated.
  const at::Tensor like = parameters_[parameter].detach();
  moments.average = at::zeros_like(like);
  moments.square = at::zeros_like(like);
  if (options_.amsgrad) moments.square_max = at::zeros_like(like);
}

void FusedAdam::step() {
  const at::NoGradGuard no_grad;
  std::map<Kind, Batch> batches;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    // What took no part in the loss has no gradient, and stays as it is.
    if (!parameter.grad().defined()) continue;
    Moments& moments = moments_[i];
    if (moments.steps == 0) start(i);
    ++moments.steps;
    Batch& batch = batches[{parameter.device().type(), parameter.device().index(),
                            parameter.scalar_type(), moments.steps}];
    batch.parameters.push_back(parameter);
    batch.gradients.push_back(parameter.grad());
    batch.averages.push_back(moments.average);
    batch.squares.push_back(moments.square);
    if (options_.amsgrad) batch.square_maxima.push_back(moments.square_max);
  }
  for (const auto& [kind, batch] : batches) {
    run_kernel(batch, std::get<std::int64_t>(kind), options_);
  }
}

void FusedAdam::zero_grad(bool set_to_none) {
  zero_gradients(parameters_, set_to_none);
}

StateDict FusedAdam::state() const {
  StateDict state;
  state.set("lr", options_.lr);
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
  fresh.options_.lr = state.real("lr");
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
