// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/torch_optim.h"

#include <ATen/core/ivalue_inl.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Type.h>
#include <fmt/format.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "worker/torch/optim/optimizer_state.h"

namespace cpprun {
namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;

constexpr const char* subject = "the optimizer";

// What each optimizer keeps, under Python's names. Unused ones are empty tensors.
template <class Take>
void fields(torch::optim::SGDOptions& options, Take&& take) {
  take("lr", options.lr());
  take("momentum", options.momentum());
  take("dampening", options.dampening());
  take("weight_decay", options.weight_decay());
  take("nesterov", options.nesterov());
}
template <class Take>
void fields(torch::optim::SGDParamState& state, Take&& take) {
  take("momentum_buffer", state.momentum_buffer());
}
template <class Options, class Take>
void adam_fields(Options& options, Take&& take) {
  take("lr", options.lr());
  take("betas", options.betas());
  take("eps", options.eps());
  take("weight_decay", options.weight_decay());
  take("amsgrad", options.amsgrad());
}
template <class State, class Take>
void adam_state_fields(State& state, Take&& take) {
  take("step", state.step());
  take("exp_avg", state.exp_avg());
  take("exp_avg_sq", state.exp_avg_sq());
  take("max_exp_avg_sq", state.max_exp_avg_sq());
}
template <class Take>
void fields(torch::optim::AdamOptions& options, Take&& take) {
  adam_fields(options, take);
}
template <class Take>
void fields(torch::optim::AdamParamState& state, Take&& take) {
  adam_state_fields(state, take);
}
template <class Take>
void fields(torch::optim::AdamWOptions& options, Take&& take) {
  adam_fields(options, take);
}
template <class Take>
void fields(torch::optim::AdamWParamState& state, Take&& take) {
  adam_state_fields(state, take);
}
template <class Take>
void fields(torch::optim::RMSpropOptions& options, Take&& take) {
  take("lr", options.lr());
  take("alpha", options.alpha());
  take("eps", options.eps());
  take("weight_decay", options.weight_decay());
  take("momentum", options.momentum());
  take("centered", options.centered());
}
template <class Take>
void fields(torch::optim::RMSpropParamState& state, Take&& take) {
  take("step", state.step());
  take("square_avg", state.square_avg());
  take("momentum_buffer", state.momentum_buffer());
  take("grad_avg", state.grad_avg());
}
template <class Take>
void fields(torch::optim::AdagradOptions& options, Take&& take) {
  take("lr", options.lr());
  take("lr_decay", options.lr_decay());
  take("weight_decay", options.weight_decay());
  take("initial_accumulator_value", options.initial_accumulator_value());
  take("eps", options.eps());
}
template <class Take>
void fields(torch::optim::AdagradParamState& state, Take&& take) {
  take("step", state.step());
  take("sum", state.sum());
}

// Calls `take` with the types of the optimizer's options and states.
template <class Options, class State>
struct KindOf {
  using OptionsType = Options;
  using StateType = State;
};
template <class Take>
void with_kind(Optimizer& optimizer, Take&& take) {
  if (optimizer.param_groups().empty()) throw StateError("the optimizer has no parameter group");
  auto& options = optimizer.param_groups().front().options();
  using namespace torch::optim;
  if (dynamic_cast<SGDOptions*>(&options) != nullptr) {
    return take(KindOf<SGDOptions, SGDParamState>{});
  }
  if (dynamic_cast<AdamOptions*>(&options) != nullptr) {
    return take(KindOf<AdamOptions, AdamParamState>{});
  }
  if (dynamic_cast<AdamWOptions*>(&options) != nullptr) {
    return take(KindOf<AdamWOptions, AdamWParamState>{});
  }
  if (dynamic_cast<RMSpropOptions*>(&options) != nullptr) {
    return take(KindOf<RMSpropOptions, RMSpropParamState>{});
  }
  if (dynamic_cast<AdagradOptions*>(&options) != nullptr) {
    return take(KindOf<AdagradOptions, AdagradParamState>{});
  }
  throw StateError(
      fmt::format("{} is not supported: only SGD, Adam, AdamW, RMSprop and Adagrad are",
                  c10::demangle(typeid(optimizer).name())));
}

// Writes fields into the state.
struct WriteOption {
  OptimizerState::Group& group;
  void operator()(const char* name, double value) const { group.options[name] = value; }
  void operator()(const char* name, bool value) const { group.options[name] = value; }
  void operator()(const char* name, const std::tuple<double, double>& both) const {
    group.options[name] = c10::ivalue::Tuple::create(std::get<0>(both), std::get<1>(both));
  }
};
struct WriteTensor {
  OptimizerState::Tensors& tensors;
  void operator()(const char* name, const at::Tensor& tensor) const {
    if (tensor.defined()) tensors[name] = tensor;
  }
  void operator()(const char* name, std::int64_t number) const {
    tensors[name] = at::scalar_tensor(static_cast<double>(number), at::kDouble);
  }
};

// Reads fields from it.
struct ReadOption {
  const OptimizerState& state;
  std::size_t group;
  void operator()(const char* name, double& value) const { value = state.real(group, name); }
  void operator()(const char* name, bool& value) const { value = state.boolean(group, name); }
  void operator()(const char* name, std::tuple<double, double>& both) const {
    std::tie(std::get<0>(both), std::get<1>(both)) = state.pair(group, name);
  }
};
struct ReadTensor {
  const OptimizerState& state;
  std::size_t parameter;
  const std::vector<std::string>& names;
  const std::vector<at::Tensor>& copies;
  void operator()(const char* name, at::Tensor& tensor) const {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) tensor = copies[i];
    }
  }
  void operator()(const char* /*step*/, std::int64_t& number) const {
    number = state.steps(parameter, subject);
  }
};

// The tensors that every state of this optimizer has; SGD's has one only with momentum.
template <class Options>
std::vector<std::string> needed(const Options& options) {
  using namespace torch::optim;
  if constexpr (std::is_same_v<Options, SGDOptions>) {
    return {"momentum_buffer"};
  } else if constexpr (std::is_same_v<Options, RMSpropOptions>) {
    std::vector<std::string> names{"square_avg"};
    if (options.momentum() > 0) names.emplace_back("momentum_buffer");
    if (options.centered()) names.emplace_back("grad_avg");
    return names;
  } else if constexpr (std::is_same_v<Options, AdagradOptions>) {
    return {"sum"};
  } else {
    std::vector<std::string> names{"exp_avg", "exp_avg_sq"};
    if (options.amsgrad()) names.emplace_back("max_exp_avg_sq");
    return names;
  }
}

std::vector<std::int64_t> sizes_of(const Optimizer& optimizer) {
  std::vector<std::int64_t> sizes;
  for (const OptimizerParamGroup& group : optimizer.param_groups()) {
    sizes.push_back(static_cast<std::int64_t>(group.params().size()));
  }
  return sizes;
}

OptimizerState saved(Optimizer& optimizer) {
  OptimizerState saved;
  with_kind(optimizer, [&](auto kind) {
    using Options = typename decltype(kind)::OptionsType;
    using State = typename decltype(kind)::StateType;
    for (OptimizerParamGroup& group : optimizer.param_groups()) {
      auto& written = saved.groups.emplace_back();
      written.parameters = static_cast<std::int64_t>(group.params().size());
      fields(static_cast<Options&>(group.options()), WriteOption{written});
      // Python fills in what torch::optim does not have.
      written.options["maximize"] = false;
      for (const at::Tensor& parameter : group.params()) {
        auto& tensors = saved.parameters.emplace_back();
        const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
        if (found != optimizer.state().end()) {
          fields(static_cast<State&>(*found->second), WriteTensor{tensors});
        }
      }
    }
  });
  return saved;
}

void take(Optimizer& optimizer, const OptimizerState& given, bool all_options) {
  with_kind(optimizer, [&](auto kind) {
    using Options = typename decltype(kind)::OptionsType;
    using State = typename decltype(kind)::StateType;
    std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
    std::vector<std::unique_ptr<torch::optim::OptimizerParamState>> states;
    std::size_t parameter = 0;
    for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
      const OptimizerParamGroup& each = optimizer.param_groups()[group];
      auto changed = std::make_unique<Options>(static_cast<const Options&>(each.options()));
      if (all_options) fields(*changed, ReadOption{given, group});
      changed->lr(given.real(group, "lr"));
      if (!(changed->lr() >= 0)) {
        throw StateError(fmt::format("the saved state is invalid: lr is {}", changed->lr()));
      }
      for (const at::Tensor& like : each.params()) {
        auto& state = states.emplace_back();
        if (!given.parameters[parameter].empty()) {
          const auto names = needed(*changed);
          const auto copies = given.copies(parameter, names, like, subject);
          auto fresh = std::make_unique<State>();
          fields(*fresh, ReadTensor{given, parameter, names, copies});
          state = std::move(fresh);
        } else if constexpr (std::is_same_v<Options, torch::optim::AdagradOptions>) {
          // It has a state before its first step.
          auto fresh = std::make_unique<State>();
          fresh->step(0);
          fresh->sum(at::full_like(like.detach(), changed->initial_accumulator_value()));
          state = std::move(fresh);
        }
        ++parameter;
      }
      options.push_back(std::move(changed));
    }
    // Nothing throws from here on.
    parameter = 0;
    for (std::size_t group = 0; group < options.size(); ++group) {
      OptimizerParamGroup& each = optimizer.param_groups()[group];
      each.set_options(std::move(options[group]));
      for (const at::Tensor& like : each.params()) {
        auto& state = states[parameter++];
        if (state) {
          optimizer.state()[like.unsafeGetTensorImpl()] = std::move(state);
        } else {
          optimizer.state().erase(like.unsafeGetTensorImpl());
        }
      }
    }
  });
}

// `step_count_` is protected. A pointer to it may be taken through a derived class.
struct Steps : torch::optim::LRScheduler {
  static auto member() { return &Steps::step_count_; }
};

}  // namespace

void set_lr(Optimizer& optimizer, double lr) {
  for (OptimizerParamGroup& group : optimizer.param_groups()) group.options().set_lr(lr);
}

StateDict state_of(Optimizer& optimizer) {
  return saved(optimizer).to_checkpoint();
}

void load_state(Optimizer& optimizer, const StateDict& state) {
  take(optimizer, OptimizerState::from_checkpoint(state, sizes_of(optimizer), subject),
       /*all_options=*/false);
}

c10::IValue state_dict(Optimizer& optimizer) {
  return saved(optimizer).to_python();
}

void load_state_dict(Optimizer& optimizer, const c10::IValue& state) {
  take(optimizer, OptimizerState::from_python(state, sizes_of(optimizer), subject),
       /*all_options=*/true);
}

std::int64_t steps_of(const torch::optim::LRScheduler& scheduler) {
  return scheduler.*Steps::member();
}

void set_steps(torch::optim::LRScheduler& scheduler, std::int64_t steps) {
  scheduler.*Steps::member() = static_cast<unsigned>(steps);
}

}  // namespace cpprun
