// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The state that a part of a training run needs to resume: tensors and texts, by name. A model, an
// optimizer and a schedule each have one; a checkpoint holds all of them, each under a prefix.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cpprun {

struct StateDict {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> texts;

  void set(const std::string& name, std::int64_t value);
  void set(const std::string& name, double value);
  // Throw StateError if the name is missing or its text is not such a number.
  std::int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;

  // Stores `part` under `prefix` + '.', and reads it back.
  void put(const std::string& prefix, const StateDict& part);
  StateDict part(const std::string& prefix) const;
};

// Lists all mismatches: names that are missing, surplus or of another shape.
class StateError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using TensorsByName = std::vector<std::pair<std::string, at::Tensor>>;

// Copies the values in place into tensors of the same names and shapes. `what` is the subject of
// the error message. Copies nothing unless everything fits.
void copy_into(const TensorsByName& targets, const StateDict& state, const std::string& what);

template <class Module>
concept HasTensors = requires(const Module& module) {
  module.named_parameters(true);
  module.named_buffers(true);
};

// The parameters and buffers of a module (torch::nn::Module, or a holder's `*module`), under their
// Python names.
template <HasTensors Module>
TensorsByName tensors_of(const Module& module) {
  TensorsByName tensors;
  for (const auto& item : module.named_parameters(/*recurse=*/true)) {
    tensors.emplace_back(item.key(), item.value());
  }
  for (const auto& item : module.named_buffers(/*recurse=*/true)) {
    tensors.emplace_back(item.key(), item.value());
  }
  return tensors;
}

template <HasTensors Module>
StateDict state_of(const Module& module) {
  StateDict state;
  for (auto& [name, tensor] : tensors_of(module)) state.tensors.emplace(name, tensor.detach());
  return state;
}

template <HasTensors Module>
void load_state(Module& module, const StateDict& state) {
  copy_into(tensors_of(module), state, "the model");
}

}  // namespace cpprun
