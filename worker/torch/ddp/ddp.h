// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// DistributedDataParallel for modules of LibTorch's C++ frontend: the same c10d::Reducer that
// Python's uses, with its buckets, which are reduced while backward still computes. The template
// below only finds a module's tensors; everything else is compiled once in ddp_core.cpp.
//
//   cpprun::DistributedDataParallel ddp(net, group);
//   auto loss = loss_of(ddp.forward(images), labels);
//   ddp.zero_grad();
//   loss.backward();  // the gradients are averages over all ranks afterwards
//
// Include torch/torch.h (or what defines the module) yourself.

#include <utility>
#include <vector>

#include "worker/torch/ddp/ddp_core.h"
#include "worker/torch/ddp/output_tensors.h"

namespace cpprun {

// `Module` is what a module is held by: a ModuleHolder (`Net` of TORCH_MODULE(Net)) or a
// shared_ptr.
template <class Module>
class DistributedDataParallel {
 public:
  // Verifies that all ranks hold the same model and gives all of them the values of rank 0. Every
  // rank has to construct it. Throws if the ranks differ or nothing can be trained.
  DistributedDataParallel(Module module, const ProcessGroup& group, const DdpOptions& options = {})
      : module_(std::move(module)),
        core_(parameters_of(*module_), buffers_of(*module_), module_->name(), group, options) {}

  template <class... Inputs>
  auto forward(Inputs&&... inputs) {
    core_.before_forward();
    auto output = module_->forward(std::forward<Inputs>(inputs)...);
    OutputTensors tensors;
    visit_tensors(output, tensors);
    core_.after_forward(tensors.places);
    return output;
  }

  template <class... Inputs>
  auto operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  // While the guard lives, gradients only add up locally; the first backward after it reduces the
  // sum: `{ auto local = ddp.no_sync(); … }`.
  [[nodiscard]] NoSync no_sync() { return NoSync(core_); }

  // Use this (or FusedSgd's) with gradient_as_bucket_view: torch::optim's throws on views.
  void zero_grad(bool set_to_none = false) { core_.zero_grad(set_to_none); }

  // For evaluation on one rank, saving and the like.
  Module& module() { return module_; }
  std::vector<at::Tensor> parameters() { return module_->parameters(); }

 private:
  Module module_;
  DdpCore core_;
};

}  // namespace cpprun
