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
  // Decay the weights themselves (AdamW) instead of adding to their gradients (Adam).
  bool decoupled_weight_decay = false;
};

// Python's defaults of torch.optim.AdamW.
inline AdamOptions adamw_options(double lr = 1e-3, double weight_decay = 1e-2) {
  return {.lr = lr, .weight_decay = weight_decay, .decoupled_weight_decay = true};
}

// Adam and AdamW; the arithmetic is that of torch.optim.Adam(fused=True) and AdamW(fused=True). All
// parameters that have had equally many steps share one counter, where Python keeps and increments
// a tensor for each.
class FusedAdam : public FusedOptimizer {
 public:
  // Throws std::invalid_argument for options out of range.
  FusedAdam(std::vector<at::Tensor> parameters, const AdamOptions& options);

  void step();

  // The averages and step counts of each parameter, by its index, and the learning rate. load()
  // throws StateError if it was saved for other parameters.
  StateDict state() const;
  void load(const StateDict& state);

 private:
  // Invariant: the averages are defined once `steps` is above zero.
  struct Moments {
    std::int64_t steps = 0;
    at::Tensor average;
    at::Tensor square;
    at::Tensor square_max;  // with amsgrad only
  };
  void start(std::size_t parameter);

  AdamOptions options_;           // the learning rate is that of the base, from the start on
  std::vector<Moments> moments_;  // as long as parameters_
};

}  // namespace cpprun
