// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/torch/files/state_dict.h"
#include "worker/torch/optim/optimizer.h"

namespace cpprun {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// Stochastic gradient descent with the arithmetic of torch.optim.SGD(fused=True).
class FusedSgd : public FusedOptimizer {
 public:
  // Throws std::invalid_argument if an option is out of range.
  FusedSgd(std::vector<at::Tensor> parameters, const SgdOptions& options);

  void step();

  // The momentum of each parameter, by index, and the learning rate. load() throws StateError if
  // the state is for other parameters.
  StateDict state() const;
  void load(const StateDict& state);

 private:
  SgdOptions options_;  // lr only initialises the base's learning rate
  // Invariant: as long as parameters_; undefined until a parameter's first step.
  std::vector<at::Tensor> momentum_;
};

}  // namespace cpprun
