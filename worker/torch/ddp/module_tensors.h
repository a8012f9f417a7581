// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The tensors of a module as torch.nn.parallel.DistributedDataParallel sees them: in the order of
// the modules, trained or not, each once however often it is registered. Python ranks of a mixed
// group go through theirs in the same order, and what goes over the wire carries no names.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace cpprun {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  // Its gradient is sparse: the weight of an Embedding or EmbeddingBag with the option sparse.
  bool sparse = false;
};

std::vector<NamedTensor> parameters_of(const torch::nn::Module& module);
std::vector<NamedTensor> buffers_of(const torch::nn::Module& module);

// One line for each tensor: what has to be the same on all ranks, and what would tell it apart.
std::vector<std::string> describe_model(const std::vector<NamedTensor>& parameters,
                                        const std::vector<NamedTensor>& buffers);

}  // namespace cpprun
