// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The tensors of a module in the order of torch.nn.parallel.DistributedDataParallel: by module,
// trained or not, each once even if it is registered twice. Python ranks of a mixed group use the
// same order, and tensors are exchanged without names.

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
  // The gradient is sparse: the weight of an Embedding or EmbeddingBag with the option sparse.
  bool sparse = false;
};

std::vector<NamedTensor> parameters_of(const torch::nn::Module& module);
std::vector<NamedTensor> buffers_of(const torch::nn::Module& module);

// One line for each tensor, with all that must be equal on all ranks.
std::vector<std::string> describe_model(const std::vector<NamedTensor>& parameters,
                                        const std::vector<NamedTensor>& buffers);

}  // namespace cpprun
