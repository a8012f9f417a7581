#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/torch/state_dict.h"

namespace cpprun {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// Stochastic gradient descent in one call of ATen's fused kernel per kind of tensor, instead of a
// loop over parameters; the arithmetic is that of torch.optim.SGD(fused=True). Unlike
// torch::optim's, its zero_grad() also works on gradients that are views of DDP's buckets.
class FusedSgd {
 public:
  FusedSgd(std::vector<at::Tensor> parameters, const SgdOptions& options);

  void step();
  void zero_grad(bool set_to_none = false);
  void set_lr(double lr) { options_.lr = lr; }
  double lr() const { return options_.lr; }

  // The momentum of each parameter, by its index, and the learning rate. load() throws StateError
  // if it was saved for other parameters.
  StateDict state() const;
  void load(const StateDict& state);

 private:
  std::vector<at::Tensor> parameters_;
  // Invariant: as long as parameters_; undefined until a parameter's first step.
  std::vector<at::Tensor> momentum_;
  SgdOptions options_;
};

// Sets every gradient to zero, in place, or drops it.
void zero_gradients(const std::vector<at::Tensor>& parameters, bool set_to_none);

}  // namespace cpprun
