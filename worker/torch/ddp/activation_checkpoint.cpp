// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/ddp/activation_checkpoint.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>

#include "worker/torch/group/device.h"

namespace cpprun {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::array devices = {c10::kCPU, c10::kCUDA};

// What the second call has in common with the first one beside its inputs.
struct SavedContext {
  struct Device {
    at::Tensor random_state;  // undefined: not to be repeated
    bool autocast = false;
    at::ScalarType autocast_type{};
  };
  bool with_random_state = true;
  std::optional<c10::Device> gpu;  // of the inputs; absent: its random numbers are not in use
  std::array<Device, devices.size()> each{};
  bool autocast_cache = false;

  void save() {
    const c10::OptionalDeviceGuard on_device(gpu);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (with_random_state && (gpu || devices[i] == c10::kCPU)) {
        each[i].random_state = random_state(devices[i]);
      }
      each[i].autocast = at::autocast::is_autocast_enabled(devices[i]);
      each[i].autocast_type = at::autocast::get_autocast_dtype(devices[i]);
    }
    autocast_cache = at::autocast::is_autocast_cache_enabled();
  }

  void restore() const {
    const c10::OptionalDeviceGuard on_device(gpu);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (each[i].random_state.defined()) set_random_state(devices[i], each[i].random_state);
      at::autocast::set_autocast_enabled(devices[i], each[i].autocast);
      at::autocast::set_autocast_dtype(devices[i], each[i].autocast_type);
    }
    at::autocast::set_autocast_cache_enabled(autocast_cache);
  }
};

// Restores a context while it exists.
class ContextGuard {
 public:
  explicit ContextGuard(const SavedContext& context) : before_(context) {
    before_.save();
    at::autocast::increment_nesting();
    context.restore();
  }
  ~ContextGuard() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    before_.restore();
  }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  SavedContext before_;
};

struct Part : torch::CustomClassHolder {
  TensorsFunction function;
  SavedContext context;
  std::size_t inputs = 0;
};

struct Recomputed : torch::autograd::Function<Recomputed> {
  static Tensors forward(torch::autograd::AutogradContext* context, at::TensorList inputs,
                         const c10::intrusive_ptr<Part>& part) {
    context->saved_data["part"] = c10::IValue::make_capsule(part);
    context->save_for_backward(inputs.vec());
    return part->function(inputs.slice(0, part->inputs).vec());
  }

  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    const auto part =
        c10::static_intrusive_pointer_cast<Part>(context->saved_data["part"].toCapsule());
    if (!torch::autograd::Engine::get_default_engine().is_checkpoint_valid()) {
      throw std::logic_error(
          "activation_checkpoint: use backward() without inputs, and not autograd::grad(): the "
          "gradients of the parameters in the function are accumulated");
    }
    const Tensors saved = context->get_saved_variables();
    Tensors inputs;
    for (std::size_t i = 0; i < part->inputs; ++i) {
      const at::Tensor& input = saved[i];
      inputs.push_back(input.defined() ? input.detach().set_requires_grad(input.requires_grad())
                                       : input);
    }
    Tensors outputs;
    {
      const ContextGuard as_before(part->context);
      const at::AutoGradMode grad(true);
      outputs = part->function(inputs);
    }
    if (outputs.size() != gradients.size()) {
      throw std::logic_error(
          fmt::format("activation_checkpoint: the function returned {} tensors in the forward, and "
                      "{} in the backward: it must compute the same",
                      gradients.size(), outputs.size()));
    }
    Tensors roots;
    Tensors root_gradients;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad() || !gradients[i].defined()) continue;
      roots.push_back(outputs[i]);
      root_gradients.push_back(gradients[i]);
    }
    if (!roots.empty()) torch::autograd::backward(roots, root_gradients);
    Tensors found;
    for (const at::Tensor& input : inputs) {
      found.push_back(input.defined() ? input.grad() : at::Tensor());
    }
    // For the tensor of apply() and for the part, which is not a tensor.
    found.resize(saved.size() + 1);
    return found;
  }
};

}  // namespace

Tensors activation_checkpoint_of(const TensorsFunction& function, const Tensors& inputs,
                                 const ActivationCheckpointOptions& options) {
  if (!at::GradMode::is_enabled()) return function(inputs);
  auto part = c10::make_intrusive<Part>();
  part->function = function;
  part->context.with_random_state = options.preserve_random_state;
  for (const at::Tensor& each : inputs) {
    if (each.defined() && each.is_cuda()) part->context.gpu = each.device();
  }
  part->context.save();
  part->inputs = inputs.size();
  Tensors all = inputs;
  // The parameters that the function uses are not among the inputs. Without an input that needs a
  // gradient, as in a model's first layer, there would be no backward.
  if (std::none_of(inputs.begin(), inputs.end(),
                   [](const at::Tensor& each) { return each.defined() && each.requires_grad(); })) {
    all.push_back(at::empty({0}).set_requires_grad(true));
  }
  return Recomputed::apply(at::TensorList(all), part);
}

}  // namespace cpprun
