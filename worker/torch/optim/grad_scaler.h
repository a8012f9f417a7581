// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Scales the loss so that gradients in half precision do not vanish, and skips a step whose
// gradients are not finite. Names, defaults and arithmetic are those of torch.amp.GradScaler.
//
//   cpprun::GradScaler scaler;
//   scaler.scale(loss).backward();
//   scaler.unscale(optimizer);  // only to see or clip the gradients before the step
//   scaler.step(optimizer);
//   scaler.update();
//
// Under DistributedDataParallel all ranks have the same gradients, so they skip the same steps.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "worker/torch/files/state_dict.h"

namespace cpprun {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;             // above 1
  double backoff_factor = 0.5;          // below 1
  std::int64_t growth_interval = 2000;  // steps without a skipped one until the scale grows
  bool enabled = true;                  // without it, every call passes through
};

class GradScaler {
 public:
  // Throws std::invalid_argument if an option is out of range.
  explicit GradScaler(const GradScalerOptions& options = {});

  at::Tensor scale(const at::Tensor& loss);

  // `Optimizer`: one of ours, or of torch::optim. All calls throw std::logic_error if called out of
  // order. So do unscale() and step() if a gradient has half precision: a model that is trained in
  // it keeps its parameters as floats.
  template <class Optimizer>
  void unscale(Optimizer& optimizer) {
    unscale_gradients(&optimizer, parameters_of(optimizer));
  }

  // Unscales, unless unscale() has been called, and steps. False if the step was skipped, because a
  // gradient is infinite or not a number.
  template <class Optimizer>
  bool step(Optimizer& optimizer) {
    if (enabled() && !may_step(&optimizer, parameters_of(optimizer))) return false;
    optimizer.step();
    return true;
  }

  // Call it once after the steps of all optimizers. Halves the scale after a skipped step, and
  // doubles it after `growth_interval` others. `new_scale` sets it instead.
  void update(std::optional<double> new_scale = std::nullopt);

  bool enabled() const { return options_.enabled; }
  // 1 if it is not enabled.
  double get_scale() const;

  // For a checkpoint. load() throws StateError.
  StateDict state() const;
  void load(const StateDict& state);
  // The same as Python's scaler.state_dict(), for save_pth and load_pth. Empty if it is not
  // enabled. load_state_dict() throws StateError.
  c10::IValue state_dict() const;
  void load_state_dict(const c10::IValue& state);

 private:
  template <class Optimizer>
  static std::vector<at::Tensor> parameters_of(Optimizer& optimizer) {
    if constexpr (requires { optimizer.param_groups(); }) {
      std::vector<at::Tensor> parameters;
      for (const auto& group : optimizer.param_groups()) {
        parameters.insert(parameters.end(), group.params().begin(), group.params().end());
      }
      return parameters;
    } else {
      return optimizer.parameters();
    }
  }

  // What an optimizer has done since the last update().
  struct Progress {
    bool stepped = false;
    std::vector<at::Tensor> found_inf;  // for each device: above zero if a gradient is not finite
  };

  void unscale_gradients(const void* optimizer, const std::vector<at::Tensor>& parameters);
  bool may_step(const void* optimizer, const std::vector<at::Tensor>& parameters);
  void require_scale(const char* call) const;
  void create_scale(const c10::Device& device);
  void take(const GradScalerOptions& options, std::int64_t growth_tracker);

  GradScalerOptions options_;  // after load(), init_scale is the saved scale
  // Undefined until the first scale(), whose device they get.
  at::Tensor scale_;
  at::Tensor growth_tracker_;  // steps since the last change of the scale
  std::int64_t first_growth_tracker_ = 0;
  std::map<const void*, Progress> optimizers_;
};

}  // namespace cpprun
