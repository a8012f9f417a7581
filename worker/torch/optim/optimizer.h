// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

namespace cpprun {

// Throws std::invalid_argument with the option and its value, unless `right`.
void check_option(bool right, const char* optimizer, const char* name, double value);

// Throws std::invalid_argument if a tensor is there twice: it would be stepped twice.
void require_each_once(const std::vector<at::Tensor>& parameters);

// Sets every gradient to zero in place, or drops it.
void zero_gradients(const std::vector<at::Tensor>& parameters, bool set_to_none);

// The parameter groups and learning rates of the fused optimizers. A step is one call of ATen's
// fused kernel per group and kind of tensor instead of a loop over parameters, with the arithmetic
// of PyTorch's fused optimizer. Unlike torch::optim's, zero_grad() also supports gradients that are
// views of DDP's buckets.
template <class Options>
class FusedOptimizer {
 public:
  // Parameters with options of their own, as in Python's list of dicts.
  struct Group {
    std::vector<at::Tensor> parameters;
    Options options;
  };

  void zero_grad(bool set_to_none = false) { zero_gradients(parameters_, set_to_none); }
  std::size_t group_count() const { return options_.size(); }
  // Of all groups, in order.
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  // The learning rate of all groups, or of one.
  void set_lr(double lr) {
    for (Options& each : options_) each.lr = lr;
  }
  void set_lr(std::size_t group, double lr) { options_.at(group).lr = lr; }
  double lr(std::size_t group = 0) const { return options_.at(group).lr; }

 protected:
  // Throws std::invalid_argument if there is no group, or a parameter is there twice.
  explicit FusedOptimizer(std::vector<Group> groups) {
    if (groups.empty()) throw std::invalid_argument("an optimizer needs a parameter group");
    for (Group& group : groups) {
      group_of_.insert(group_of_.end(), group.parameters.size(), options_.size());
      sizes_.push_back(static_cast<std::int64_t>(group.parameters.size()));
      options_.push_back(group.options);
      parameters_.insert(parameters_.end(), std::move_iterator(group.parameters.begin()),
                         std::move_iterator(group.parameters.end()));
    }
    require_each_once(parameters_);
  }

  // One kernel call takes tensors of one group, device and type.
  struct Kind {
    std::size_t group = 0;
    c10::DeviceType device{};
    int index = 0;
    at::ScalarType type{};
    auto operator<=>(const Kind&) const = default;
  };
  // Skips parameters without a gradient: they had no part in the loss and stay unchanged.
  void for_each_with_gradient(
      const std::function<void(std::size_t, const at::Tensor&, const Kind&)>& take) const {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& parameter = parameters_[i];
      if (!parameter.grad().defined()) continue;
      const auto device = parameter.device();
      take(i, parameter, {group_of_[i], device.type(), device.index(), parameter.scalar_type()});
    }
  }

  std::vector<at::Tensor> parameters_;  // of all groups, in order
  std::vector<std::size_t> group_of_;   // as long as parameters_
  std::vector<std::int64_t> sizes_;     // of each group
  std::vector<Options> options_;        // of each group; `lr` is the current one
};

}  // namespace cpprun
