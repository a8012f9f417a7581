// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/torch/files/state_dict.h"
#include "worker/torch/optim/optimizer.h"
#include "worker/torch/optim/optimizer_state.h"

namespace cpprun {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// Stochastic gradient descent with the arithmetic of torch.optim.SGD(fused=True).
class FusedSgd : public FusedOptimizer<SgdOptions> {
 public:
  // Throw std::invalid_argument if an option is out of range.
  FusedSgd(std::vector<at::Tensor> parameters, const SgdOptions& options);
  explicit FusedSgd(std::vector<Group> groups);

  void step();

  // The momentum of each parameter and the options of each group, for a checkpoint. load() takes
  // the momentum and the learning rates, and throws StateError if the state is for other
  // parameters.
  StateDict state() const { return saved().to_checkpoint(); }
  void load(const StateDict& state);

  // The same as Python's optimizer.state_dict(), for save_pth and load_pth. As in Python,
  // load_state_dict() takes all options. Throws StateError.
  c10::IValue state_dict() const { return saved().to_python(); }
  void load_state_dict(const c10::IValue& state);

 private:
  OptimizerState saved() const;
  void take(const OptimizerState& state, std::vector<SgdOptions> options);

  // Invariant: as long as parameters_; undefined until a parameter's first step.
  std::vector<at::Tensor> momentum_;
};

}  // namespace cpprun
