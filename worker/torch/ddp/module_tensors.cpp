// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/ddp/module_tensors.h"

#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <unordered_set>

#include "worker/torch/group/failure.h"

namespace cpprun {
namespace {

using Seen = std::unordered_set<const void*>;

void add_sparse_weight(const torch::nn::Module& module, Seen& weights) {
  if (const auto* const table = module.as<torch::nn::EmbeddingImpl>()) {
    if (table->options.sparse()) weights.insert(table->weight.unsafeGetTensorImpl());
  } else if (const auto* const bag = module.as<torch::nn::EmbeddingBagImpl>()) {
    if (bag->options.sparse()) weights.insert(bag->weight.unsafeGetTensorImpl());
  }
}

Seen sparse_weights(const torch::nn::Module& module) {
  Seen weights;
  add_sparse_weight(module, weights);
  for (const auto& each : module.modules(/*include_self=*/false)) add_sparse_weight(*each, weights);
  return weights;
}

// A tensor that two modules share counts once, as in Python; LibTorch lists it under both names.
template <class Items>
std::vector<NamedTensor> each_once(const Items& items, const Seen& sparse) {
  std::vector<NamedTensor> found;
  Seen seen;
  for (const auto& item : items) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    found.push_back({.name = item.key(),
                     .tensor = tensor,
                     .sparse = sparse.contains(tensor.unsafeGetTensorImpl())});
  }
  return found;
}

}  // namespace

std::vector<NamedTensor> parameters_of(const torch::nn::Module& module) {
  return each_once(module.named_parameters(/*recurse=*/true), sparse_weights(module));
}

std::vector<NamedTensor> buffers_of(const torch::nn::Module& module) {
  return each_once(module.named_buffers(/*recurse=*/true), {});
}

std::vector<std::string> describe_model(const std::vector<NamedTensor>& parameters,
                                        const std::vector<NamedTensor>& buffers) {
  std::vector<std::string> lines;
  for (const NamedTensor& each : parameters) {
    lines.push_back(fmt::format("parameter {}, {}{}{}", each.name, describe(each.tensor),
                                each.tensor.requires_grad() ? "" : ", frozen",
                                each.sparse ? ", with sparse gradients" : ""));
  }
  for (const NamedTensor& each : buffers) {
    lines.push_back(fmt::format("buffer {}, {}", each.name, describe(each.tensor)));
  }
  return lines;
}

}  // namespace cpprun
