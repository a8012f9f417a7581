// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/optimizer_state.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "proto/text.h"

namespace cpprun {
namespace {

using GenericDict = c10::impl::GenericDict;
using GenericList = c10::impl::GenericList;
using Sizes = std::vector<std::int64_t>;

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw StateError(fmt::format("{} does not match the saved state: {}", what, why));
}

std::size_t total(const Sizes& groups) {
  return static_cast<std::size_t>(std::accumulate(groups.begin(), groups.end(), std::int64_t{0}));
}

void check_groups(const std::vector<OptimizerState::Group>& saved, const Sizes& groups,
                  const std::string& what) {
  Sizes sizes;
  for (const auto& group : saved) sizes.push_back(group.parameters);
  if (sizes == groups) return;
  refuse(what, fmt::format("its parameter groups have [{}] parameters, expected [{}]",
                           fmt::join(sizes, ", "), fmt::join(groups, ", ")));
}

OptimizerState::Tensors& parameter_of(OptimizerState& state, std::int64_t index,
                                      const std::string& what) {
  if (index < 0 || static_cast<std::size_t>(index) >= state.parameters.size()) {
    refuse(what,
           fmt::format("parameter {} is unknown, there are {}", index, state.parameters.size()));
  }
  return state.parameters[static_cast<std::size_t>(index)];
}

// "state.3.exp_avg" → 3 and "exp_avg".
std::optional<std::pair<std::int64_t, std::string>> indexed(std::string_view name,
                                                            std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto index = exact_number<std::int64_t>(name.substr(0, dot));
  if (!index) return std::nullopt;
  return std::pair(*index, std::string(name.substr(dot + 1)));
}

// Before there were groups: tensors exp_avg.0 and momentum.0, texts step.0 and lr.
StateDict with_groups(const StateDict& old, const Sizes& groups) {
  StateDict state;
  const auto renamed = [](const std::string& name) {
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos) return name;
    const std::string what = name.substr(0, dot);
    return "state." + name.substr(dot + 1) + '.' + (what == "momentum" ? "momentum_buffer" : what);
  };
  for (const auto& [name, tensor] : old.tensors) state.tensors[renamed(name)] = tensor;
  for (const auto& [name, text] : old.texts) {
    if (name != "lr") state.texts[renamed(name)] = text;
  }
  for (std::size_t group = 0; group < groups.size(); ++group) {
    state.texts[fmt::format("param_groups.{}.lr", group)] = old.texts.at("lr");
    state.set(fmt::format("param_groups.{}.params", group), groups[group]);
  }
  return state;
}

c10::IValue option_of(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto number = exact_number<double>(text)) return *number;
  const std::size_t comma = text.find(',');
  if (comma != std::string::npos) {
    const auto first = exact_number<double>(std::string_view(text).substr(0, comma));
    const auto second = exact_number<double>(std::string_view(text).substr(comma + 1));
    if (first && second) return c10::ivalue::Tuple::create(*first, *second);
  }
  throw StateError(fmt::format("\"{}\" is not an option of an optimizer", text));
}

// Empty for None, which Python sets itself.
std::string text_of(const c10::IValue& option) {
  if (option.isBool()) return option.toBool() ? "true" : "false";
  if (option.isInt()) return fmt::format("{}", option.toInt());
  if (option.isDouble()) return fmt::format("{}", option.toDouble());
  if (!option.isTuple()) return "";
  std::vector<double> numbers;
  for (const c10::IValue& each : option.toTupleRef().elements()) numbers.push_back(each.toDouble());
  return fmt::format("{}", fmt::join(numbers, ","));
}

const c10::IValue* entry(const GenericDict& dict, const std::string& key, c10::IValue& kept) {
  const auto found = dict.find(key);
  if (found == dict.end()) return nullptr;
  kept = found->value();
  return &kept;
}

}  // namespace

StateDict OptimizerState::to_checkpoint() const {
  StateDict state;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const auto& [name, tensor] : parameters[i]) {
      const std::string key = fmt::format("state.{}.{}", i, name);
      if (name == "step") {
        state.set(key, static_cast<std::int64_t>(tensor.item<double>()));
      } else {
        state.tensors[key] = tensor;
      }
    }
  }
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const std::string prefix = fmt::format("param_groups.{}.", group);
    state.set(prefix + "params", groups[group].parameters);
    for (const auto& [name, option] : groups[group].options) {
      if (auto text = text_of(option); !text.empty()) state.texts[prefix + name] = std::move(text);
    }
  }
  return state;
}

OptimizerState OptimizerState::from_checkpoint(const StateDict& state, const Sizes& groups,
                                               const std::string& what) {
  if (state.texts.contains("lr")) return from_checkpoint(with_groups(state, groups), groups, what);
  OptimizerState found;
  found.parameters.resize(total(groups));
  for (const auto& [name, tensor] : state.tensors) {
    const auto place = indexed(name, "state.");
    if (!place) refuse(what, name + " is unknown");
    parameter_of(found, place->first, what)[place->second] = tensor;
  }
  for (const auto& [name, text] : state.texts) {
    if (const auto place = indexed(name, "state.")) {
      parameter_of(found, place->first, what)[place->second] =
          at::scalar_tensor(static_cast<double>(state.integer(name)), at::kDouble);
    } else if (const auto option = indexed(name, "param_groups.")) {
      if (option->first < 0 || option->first > static_cast<std::int64_t>(state.texts.size())) {
        refuse(what, name + " is unknown");
      }
      const auto group = static_cast<std::size_t>(option->first);
      if (found.groups.size() <= group) found.groups.resize(group + 1);
      if (option->second == "params") {
        found.groups[group].parameters = state.integer(name);
      } else {
        found.groups[group].options[option->second] = option_of(text);
      }
    } else {
      refuse(what, name + " is unknown");
    }
  }
  check_groups(found.groups, groups, what);
  return found;
}

c10::IValue OptimizerState::to_python() const {
  const auto dict = [] { return GenericDict(c10::AnyType::get(), c10::AnyType::get()); };
  GenericDict state = dict();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].empty()) continue;
    GenericDict tensors = dict();
    for (const auto& [name, tensor] : parameters[i]) {
      // Python's optimizers count steps in a tensor of floats.
      tensors.insert(name, name == "step" ? tensor.to(at::kFloat) : tensor);
    }
    state.insert(static_cast<std::int64_t>(i), tensors);
  }
  GenericList param_groups(c10::AnyType::get());
  std::int64_t next = 0;
  for (const Group& group : groups) {
    GenericDict options = dict();
    for (const auto& [name, option] : group.options) options.insert(name, option);
    GenericList numbers(c10::AnyType::get());
    for (std::int64_t i = 0; i < group.parameters; ++i) numbers.push_back(next++);
    options.insert("params", numbers);
    param_groups.push_back(options);
  }
  GenericDict whole = dict();
  whole.insert("state", state);
  whole.insert("param_groups", param_groups);
  return whole;
}

OptimizerState OptimizerState::from_python(const c10::IValue& value, const Sizes& groups,
                                           const std::string& what) {
  c10::IValue kept_state;
  c10::IValue kept_groups;
  const c10::IValue* state = nullptr;
  const c10::IValue* param_groups = nullptr;
  if (value.isGenericDict()) {
    state = entry(value.toGenericDict(), "state", kept_state);
    param_groups = entry(value.toGenericDict(), "param_groups", kept_groups);
  }
  if (state == nullptr || param_groups == nullptr || !state->isGenericDict() ||
      !param_groups->isList()) {
    refuse(what, "expected the dict of optimizer.state_dict(), with state and param_groups");
  }
  OptimizerState found;
  found.parameters.resize(total(groups));
  std::map<std::int64_t, std::int64_t> order;  // Python's number of a parameter → its position
  for (const c10::IValue& each : param_groups->toListRef()) {
    if (!each.isGenericDict()) refuse(what, "a parameter group is not a dict");
    Group& group = found.groups.emplace_back();
    for (const auto& option : each.toGenericDict()) {
      if (!option.key().isString()) refuse(what, "an option's name is not a string");
      const std::string& name = option.key().toStringRef();
      if (name != "params") {
        if (name == "maximize" && option.value().isBool() && option.value().toBool()) {
          refuse(what, "maximize=True is not supported");
        }
        group.options[name] = option.value();
        continue;
      }
      if (!option.value().isList()) refuse(what, "params of a parameter group is not a list");
      for (const c10::IValue& number : option.value().toListRef()) {
        if (!number.isInt())
          refuse(what, "params of a parameter group has an entry that is not a number");
        order.emplace(number.toInt(), static_cast<std::int64_t>(order.size()));
        ++group.parameters;
      }
    }
  }
  check_groups(found.groups, groups, what);
  for (const auto& each : state->toGenericDict()) {
    const auto place = each.key().isInt() ? order.find(each.key().toInt()) : order.end();
    if (place == order.end() || !each.value().isGenericDict()) {
      refuse(what, "state has an entry that is in no parameter group");
    }
    Tensors& tensors = parameter_of(found, place->second, what);
    for (const auto& item : each.value().toGenericDict()) {
      if (item.value().isNone()) continue;  // SGD without momentum
      const std::string name = item.key().isString() ? item.key().toStringRef() : "";
      if (item.value().isTensor()) {
        tensors[name] = item.value().toTensor();
      } else if (item.value().isInt() || item.value().isDouble()) {
        tensors[name] = at::scalar_tensor(item.value().toScalar(), at::kDouble);
      } else {
        refuse(what, fmt::format("state.{}.{} is not a tensor", place->second, name));
      }
    }
  }
  return found;
}

double OptimizerState::real(std::size_t group, const std::string& option) const {
  const auto& options = groups.at(group).options;
  const auto found = options.find(option);
  if (found != options.end() && found->second.isScalar())
    return found->second.toScalar().toDouble();
  // A learning rate may be a tensor in Python.
  if (found != options.end() && found->second.isTensor() && found->second.toTensor().numel() == 1) {
    return found->second.toTensor().item<double>();
  }
  throw StateError(fmt::format("param_groups.{}.{} is missing or not a number", group, option));
}

bool OptimizerState::boolean(std::size_t group, const std::string& option) const {
  const auto& options = groups.at(group).options;
  const auto found = options.find(option);
  if (found != options.end() && found->second.isBool()) return found->second.toBool();
  throw StateError(fmt::format("param_groups.{}.{} is missing or not a boolean", group, option));
}

std::pair<double, double> OptimizerState::pair(std::size_t group, const std::string& option) const {
  const auto& options = groups.at(group).options;
  const auto found = options.find(option);
  if (found != options.end() && found->second.isTuple()) {
    const auto& both = found->second.toTupleRef().elements();
    if (both.size() == 2 && both[0].isScalar() && both[1].isScalar()) {
      return {both[0].toScalar().toDouble(), both[1].toScalar().toDouble()};
    }
  }
  throw StateError(fmt::format("param_groups.{}.{} is missing or not two numbers", group, option));
}

std::vector<at::Tensor> OptimizerState::copies(std::size_t parameter,
                                               const std::vector<std::string>& names,
                                               const at::Tensor& like,
                                               const std::string& what) const {
  StateDict saved;
  for (const auto& [name, tensor] : parameters.at(parameter)) {
    if (name != "step") saved.tensors[fmt::format("state.{}.{}", parameter, name)] = tensor;
  }
  TensorsByName targets;
  std::vector<at::Tensor> copies;
  for (const std::string& name : names) {
    copies.push_back(at::empty_like(like.detach()));
    targets.emplace_back(fmt::format("state.{}.{}", parameter, name), copies.back());
  }
  copy_into(targets, saved, what);
  return copies;
}

std::int64_t OptimizerState::steps(std::size_t parameter, const std::string& what) const {
  const auto found = parameters.at(parameter).find("step");
  if (found == parameters.at(parameter).end() || found->second.numel() != 1) {
    refuse(what, fmt::format("state.{}.step is missing or not a number", parameter));
  }
  const auto steps = static_cast<std::int64_t>(found->second.item<double>());
  if (steps < 0) {
    refuse(what, fmt::format("state.{}.step is {}, expected 0 or more", parameter, steps));
  }
  return steps;
}

}  // namespace cpprun
