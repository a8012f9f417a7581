// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Activation checkpointing: the forward of a part of the model keeps only its inputs, and the
// backward computes that part once more. It trades time for memory, as torch.utils.checkpoint with
// use_reentrant=True does; gradients are the same, to the last digit.
//
//   x = cpprun::activation_checkpoint([&](const at::Tensor& x) { return block->forward(x); }, x);
//
// With find_unused_parameters of DistributedDataParallel, set static_graph as well; then, or
// without that option, it works as in Python.

#include <ATen/core/Tensor.h>

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

namespace cpprun {

struct ActivationCheckpointOptions {
  // Repeats the random numbers of the forward, as dropout needs.
  bool preserve_random_state = true;
};

using TensorsFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// Calls `function` now, and once more in the backward, where it must compute the same. It runs with
// the autocast settings of the first call. It is kept until the graph is gone, so capture modules
// by their holders, and tensors that need a gradient only if they are parameters: others are
// inputs. Throws std::logic_error in the backward if the second call has another number of outputs.
std::vector<at::Tensor> activation_checkpoint_of(const TensorsFunction& function,
                                                 const std::vector<at::Tensor>& inputs,
                                                 const ActivationCheckpointOptions& options = {});

// The same for a function of tensors that returns a tensor.
template <class Function, class... Inputs>
at::Tensor activation_checkpoint(Function function, const Inputs&... inputs) {
  static_assert(std::is_convertible_v<std::invoke_result_t<Function, const Inputs&...>, at::Tensor>,
                "for a function that returns several tensors, use activation_checkpoint_of");
  const TensorsFunction call = [function](const std::vector<at::Tensor>& tensors) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::vector<at::Tensor>{function(tensors[I]...)};
    }(std::index_sequence_for<Inputs...>());
  };
  return activation_checkpoint_of(call, {at::Tensor(inputs)...}).front();
}

}  // namespace cpprun
