// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/torch/files/state_dict.h"
#include "worker/torch/optim/optimizer.h"

namespace cpprun {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  // Decays the weights themselves (AdamW) instead of adding to their gradients (Adam).
  bool decoupled_weight_decay = false;
};

// The defaults of torch.optim.AdamW.
inline AdamOptions adamw_options(double lr = 1e-3, double weight_decay = 1e-2) {
  return {.lr = lr, .weight_decay = weight_decay, .decoupled_weight_decay = true};
}

// Adam and AdamW with the arithmetic of torch.optim.Adam(fused=True) and AdamW(fused=True).
// Parameters with the same number of steps share one counter; Python keeps a tensor for each.
class FusedAdam : public FusedOptimizer {
 public:
  // Throws std::invalid_argument if an option is out of range.
  FusedAdam(std::vector<at::Tensor> parameters, const AdamOptions& options);

  void step();

  // The averages and step counts of each parameter, by index, and the learning rate. load() throws
  // StateError if the state is for other parameters.
  StateDict state() const;
  void load(const StateDict& state);

 private:
  // Invariant: the averages are defined if `steps` is above zero.
  struct Moments {
    std::int64_t steps = 0;
    at::Tensor average;
    at::Tensor square;
    at::Tensor square_max;  // with amsgrad only
  };
  void start(std::size_t parameter);

  AdamOptions options_;           // lr only initialises the base's learning rate
  std::vector<Moments> moments_;  // as long as parameters_
};

}  // namespace cpprun
