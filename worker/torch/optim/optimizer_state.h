// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The state of an optimizer as Python's optimizer.state_dict() has it: tensors for each parameter,
// by its number over all groups, and options for each parameter group. It is written in two forms:
//
//   a checkpoint (StateDict)   tensors state.0.exp_avg, texts state.0.step, param_groups.0.lr,
//                              and param_groups.0.params, the number of parameters of the group
//   Python (IValue)            {"state": {0: {"exp_avg": …}}, "param_groups": [{"lr": …,
//                              "params": [0, 1]}]}, for save_pth and load_pth

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "worker/torch/files/state_dict.h"

namespace cpprun {

struct OptimizerState {
  using Tensors = std::map<std::string, at::Tensor>;
  struct Group {
    std::map<std::string, c10::IValue> options;  // double, bool, None, or a pair of doubles
    std::int64_t parameters = 0;
  };
  std::vector<Tensors> parameters;  // empty for a parameter without a step
  std::vector<Group> groups;

  StateDict to_checkpoint() const;
  c10::IValue to_python() const;

  // Throw StateError unless this is the state of an optimizer with groups of these sizes; `what` is
  // the subject of the message. A checkpoint written before there were groups is read as well.
  static OptimizerState from_checkpoint(const StateDict& state,
                                        const std::vector<std::int64_t>& groups,
                                        const std::string& what);
  static OptimizerState from_python(const c10::IValue& value,
                                    const std::vector<std::int64_t>& groups,
                                    const std::string& what);

  // The option of a group. Throw StateError if it is missing or of another type.
  double real(std::size_t group, const std::string& option) const;
  bool boolean(std::size_t group, const std::string& option) const;
  std::pair<double, double> pair(std::size_t group, const std::string& option) const;

  // Copies of the tensors `names` of one parameter, in that order, on the device and with the type
  // of `like`. Throws StateError if one is missing, if there is another one, or if a shape differs
  // from that of `like`.
  std::vector<at::Tensor> copies(std::size_t parameter, const std::vector<std::string>& names,
                                 const at::Tensor& like, const std::string& what) const;
  // The number of steps of a parameter, from the scalar "step".
  std::int64_t steps(std::size_t parameter, const std::string& what) const;
};

// Options that came with a state: std::invalid_argument of `check` becomes StateError.
template <class Check>
void check_saved(Check check) {
  try {
    check();
  } catch (const std::invalid_argument& error) {
    throw StateError(std::string("the saved state is invalid: ") + error.what());
  }
}

}  // namespace cpprun
