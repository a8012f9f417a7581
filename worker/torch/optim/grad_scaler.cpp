// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/grad_scaler.h"

#include <ATen/core/Dict.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include "worker/torch/optim/optimizer.h"
#include "worker/torch/optim/optimizer_state.h"

namespace cpprun {
namespace {

using GenericDict = c10::impl::GenericDict;

void check(const GradScalerOptions& options) {
  check_option(options.growth_factor > 1, "GradScaler", "growth_factor", options.growth_factor);
  check_option(options.backoff_factor > 0 && options.backoff_factor < 1, "GradScaler",
               "backoff_factor", options.backoff_factor);
  check_option(options.growth_interval > 0, "GradScaler", "growth_interval",
               static_cast<double>(options.growth_interval));
  check_option(options.init_scale > 0, "GradScaler", "init_scale", options.init_scale);
}

// One kernel call takes gradients of one type.
using Gradients = std::map<at::ScalarType, std::vector<at::Tensor>>;

std::map<std::string, Gradients> gradients_by_device(const std::vector<at::Tensor>& parameters) {
  std::map<std::string, Gradients> found;
  std::unordered_set<const void*> seen;  // torch::optim's may have a parameter twice
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined() || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    if (gradient.scalar_type() == at::kHalf) {
      throw std::logic_error(
          "GradScaler: a gradient has half precision: keep the parameters as floats, and let "
          "autocast choose the precision of the operations");
    }
    const at::Tensor values = gradient.is_sparse() ? gradient._values() : gradient;
    found[values.device().str()][values.scalar_type()].push_back(values);
  }
  return found;
}

double number_in(const c10::IValue& value, const char* name) {
  if (value.isGenericDict()) {
    const GenericDict dict = value.toGenericDict();
    const auto found = dict.find(name);
    if (found != dict.end()) {
      if (found->value().isDouble()) return found->value().toDouble();
      if (found->value().isInt()) return static_cast<double>(found->value().toInt());
    }
  }
  throw StateError(fmt::format("the state of GradScaler has no number {}", name));
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  check(options);
}

void GradScaler::create_scale(const c10::Device& device) {
  scale_ = at::full({}, options_.init_scale, at::TensorOptions(at::kFloat).device(device));
  growth_tracker_ = at::full({}, first_growth_tracker_, at::TensorOptions(at::kInt).device(device));
}

at::Tensor GradScaler::scale(const at::Tensor& loss) {
  if (!enabled()) return loss;
  if (!scale_.defined()) create_scale(loss.device());
  return loss * scale_.to(loss.device(), /*non_blocking=*/true);
}

void GradScaler::require_scale(const char* call) const {
  if (scale_.defined()) return;
  throw std::logic_error(
      fmt::format("GradScaler: {} was called before scale(): call scaler.scale(loss).backward() "
                  "first",
                  call));
}

void GradScaler::unscale_gradients(const void* optimizer,
                                   const std::vector<at::Tensor>& parameters) {
  if (!enabled()) return;
  require_scale("unscale()");
  Progress& progress = optimizers_[optimizer];
  if (progress.stepped) {
    throw std::logic_error("GradScaler: unscale() was called after step(): call update() first");
  }
  if (!progress.found_inf.empty()) {
    throw std::logic_error(
        "GradScaler: unscale() was called twice for one optimizer: call update() between them");
  }
  const at::NoGradGuard no_grad;
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  for (auto& [device, gradients] : gradients_by_device(parameters)) {
    at::Tensor found = at::zeros({}, at::TensorOptions(at::kFloat).device(c10::Device(device)));
    const at::Tensor here = inverse.to(found.device(), /*non_blocking=*/true);
    for (auto& [type, tensors] : gradients) {
      at::_amp_foreach_non_finite_check_and_unscale_(tensors, found, here);
    }
    progress.found_inf.push_back(found);
  }
}

bool GradScaler::may_step(const void* optimizer, const std::vector<at::Tensor>& parameters) {
  require_scale("step()");
  if (optimizers_[optimizer].stepped) {
    throw std::logic_error(
        "GradScaler: step() was called twice for one optimizer: call update() between them");
  }
  if (optimizers_[optimizer].found_inf.empty()) unscale_gradients(optimizer, parameters);
  Progress& progress = optimizers_[optimizer];
  if (progress.found_inf.empty()) {
    throw std::logic_error(
        "GradScaler: no parameter of the optimizer has a gradient: call backward() before step()");
  }
  progress.stepped = true;
  bool finite = true;
  for (const at::Tensor& found : progress.found_inf) finite &= found.item<float>() == 0;
  return finite;
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!enabled()) return;
  require_scale("update()");
  const at::NoGradGuard no_grad;
  if (new_scale) {
    check_option(*new_scale > 0, "GradScaler", "new_scale", *new_scale);
    scale_.fill_(*new_scale);
  } else {
    at::Tensor found;
    for (const auto& [optimizer, progress] : optimizers_) {
      for (const at::Tensor& each : progress.found_inf) {
        const at::Tensor here = each.to(scale_.device(), /*non_blocking=*/true);
        found = found.defined() ? found + here : here;
      }
    }
    if (!found.defined()) {
      throw std::logic_error("GradScaler: update() was called before step()");
    }
    at::_amp_update_scale_(scale_, growth_tracker_, found, options_.growth_factor,
                           options_.backoff_factor, options_.growth_interval);
  }
  optimizers_.clear();
}

double GradScaler::get_scale() const {
  if (!enabled()) return 1;
  return scale_.defined() ? scale_.item<float>() : options_.init_scale;
}

StateDict GradScaler::state() const {
  StateDict state;
  if (!enabled()) return state;
  const auto tracker =
      growth_tracker_.defined() ? growth_tracker_.item<int>() : first_growth_tracker_;
  state.set("scale", get_scale());
  state.set("growth_factor", options_.growth_factor);
  state.set("backoff_factor", options_.backoff_factor);
  state.set("growth_interval", options_.growth_interval);
  state.set("_growth_tracker", static_cast<std::int64_t>(tracker));
  return state;
}

c10::IValue GradScaler::state_dict() const {
  GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  const StateDict values = state();
  for (const auto& [name, text] : values.texts) {
    const bool whole = name == "growth_interval" || name == "_growth_tracker";
    dict.insert(name, whole ? c10::IValue(values.integer(name)) : c10::IValue(values.real(name)));
  }
  return dict;
}

void GradScaler::load(const StateDict& state) {
  if (!enabled()) return;
  take({.init_scale = state.real("scale"),
        .growth_factor = state.real("growth_factor"),
        .backoff_factor = state.real("backoff_factor"),
        .growth_interval = state.integer("growth_interval")},
       state.integer("_growth_tracker"));
}

void GradScaler::load_state_dict(const c10::IValue& state) {
  if (!enabled()) return;
  take({.init_scale = number_in(state, "scale"),
        .growth_factor = number_in(state, "growth_factor"),
        .backoff_factor = number_in(state, "backoff_factor"),
        .growth_interval = static_cast<std::int64_t>(number_in(state, "growth_interval"))},
       static_cast<std::int64_t>(number_in(state, "_growth_tracker")));
}

void GradScaler::take(const GradScalerOptions& options, std::int64_t growth_tracker) {
  check_saved([&] {
    check_option(options.init_scale > 0, "GradScaler", "scale", options.init_scale);
    check(options);
  });
  options_ = options;
  first_growth_tracker_ = growth_tracker;
  if (scale_.defined()) create_scale(scale_.device());
}

}  // namespace cpprun
