// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/averaged_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>

namespace cpprun {

AveragedModel::AveragedModel(TensorsByName parameters, TensorsByName buffers,
                             const AveragedModelOptions& options)
    : options_(options), own_(std::move(parameters)) {
  if (options.decay && !(*options.decay >= 0 && *options.decay <= 1)) {
    throw std::invalid_argument(
        fmt::format("AveragedModel: decay must be from 0 to 1, not {}", *options.decay));
  }
  TensorsByName& kept = options.use_buffers ? own_ : remaining_;
  for (auto& buffer : buffers) kept.push_back(std::move(buffer));
  for (const auto& [name, tensor] : own_) averages_.push_back(tensor.detach().clone());
}

void AveragedModel::update() {
  const at::NoGradGuard no_grad;
  struct Kind {
    std::vector<at::Tensor> averages;
    std::vector<at::Tensor> values;
  };
  // One kernel call takes tensors of one device and type.
  std::map<std::pair<std::string, at::ScalarType>, Kind> kinds;
  const auto count = static_cast<double>(updates_ + 1);
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    at::Tensor& average = averages_[i];
    // The model may have been moved to another device.
    const at::Tensor value = own_[i].second.detach().to(average.device());
    const bool is_real = average.is_floating_point() || average.is_complex();
    if (updates_ == 0) {
      average.copy_(value);
    } else if (is_real && (options_.decay || !average.is_cpu())) {
      Kind& kind = kinds[{average.device().str(), average.scalar_type()}];
      kind.averages.push_back(average);
      kind.values.push_back(value);
    } else if (options_.decay) {
      average.copy_(average * *options_.decay + value * (1 - *options_.decay));
    } else {
      average.copy_(average + (value - average) / count);
    }
  }
  // Python computes the weight of the mean as a float.
  const double weight = options_.decay ? 1 - *options_.decay : 1 / static_cast<float>(count);
  for (auto& [key, kind] : kinds) at::_foreach_lerp_(kind.averages, kind.values, weight);
  ++updates_;
}

AveragedModel::SwappedIn::SwappedIn(const AveragedModel& average) : average_(average) {
  const at::NoGradGuard no_grad;
  own_.reserve(average.own_.size());
  for (const auto& [name, tensor] : average.own_) own_.push_back(tensor.detach().clone());
  for (std::size_t i = 0; i < own_.size(); ++i) {
    average.own_[i].second.copy_(average.averages_[i]);
  }
}

AveragedModel::SwappedIn::~SwappedIn() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    average_.own_[i].second.copy_(own_[i]);
  }
}

StateDict AveragedModel::state() const {
  StateDict state;
  state.tensors["n_averaged"] = at::full({}, updates_, at::kLong);
  for (std::size_t i = 0; i < own_.size(); ++i) {
    state.tensors["module." + own_[i].first] = averages_[i];
  }
  for (const auto& [name, tensor] : remaining_) state.tensors["module." + name] = tensor.detach();
  return state;
}

void AveragedModel::load(const StateDict& state) {
  TensorsByName targets;
  const at::Tensor updates = at::zeros({}, at::kLong);
  targets.emplace_back("n_averaged", updates);
  for (std::size_t i = 0; i < own_.size(); ++i) {
    targets.emplace_back("module." + own_[i].first, averages_[i]);
  }
  // Checked, but not taken: the model's state has them.
  for (const auto& [name, tensor] : remaining_) {
    targets.emplace_back("module." + name, at::empty_like(tensor));
  }
  copy_into(targets, state, "the averaged model");
  updates_ = updates.item<std::int64_t>();
}

}  // namespace cpprun
