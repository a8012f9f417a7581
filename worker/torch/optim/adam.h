// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/torch/files/state_dict.h"
#include "worker/torch/optim/optimizer.h"
#include "worker/torch/optim/optimizer_state.h"

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
class FusedAdam : public FusedOptimizer<AdamOptions> {
 public:
  // Throw std::invalid_argument if an option is out of range, or if groups differ in
  // decoupled_weight_decay: Adam and AdamW are two optimizers in Python.
  FusedAdam(std::vector<at::Tensor> parameters, const AdamOptions& options);
  explicit FusedAdam(std::vector<Group> groups);

  void step();

  // The averages and step counts of each parameter and the options of each group, for a checkpoint.
  // load() takes the averages, step counts and learning rates, and throws StateError if the state
  // is for other parameters.
  StateDict state() const { return saved().to_checkpoint(); }
  void load(const StateDict& state);

  // The same as Python's optimizer.state_dict(), for save_pth and load_pth. As in Python,
  // load_state_dict() takes all options. Throws StateError.
  c10::IValue state_dict() const { return saved().to_python(); }
  void load_state_dict(const c10::IValue& state);

 private:
  // Invariant: the averages are defined if `steps` is above zero.
  struct Moments {
    std::int64_t steps = 0;
    at::Tensor average;
    at::Tensor square;
    at::Tensor square_max;  // with amsgrad only
  };
  OptimizerState saved() const;
  void take(const OptimizerState& state, std::vector<AdamOptions> options);

  std::vector<Moments> moments_;  // as long as parameters_
};

}  // namespace cpprun
