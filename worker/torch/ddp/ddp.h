// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// DistributedDataParallel for modules of LibTorch's C++ frontend. Uses Python's c10d::Reducer,
// which reduces its buckets while backward still computes. This template only finds a module's
// tensors; ddp_core.cpp contains the rest and is compiled once.
//
//   cpprun::DistributedDataParallel ddp(net, group);
//   auto loss = loss_of(ddp.forward(images), labels);
//   ddp.zero_grad();
//   loss.backward();  // the gradients are averages over all ranks afterwards
//
// Include torch/torch.h (or what defines the module) yourself.

#include <ATen/core/Tensor.h>

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "worker/torch/ddp/ddp_core.h"

namespace cpprun {

// Finds the tensors in the result of a module's forward: a tensor, or vectors, pairs and tuples of
// such results. For an output type of your own, declare in its namespace
//   void visit_tensors(MyOutput& output, cpprun::OutputTensors& found);
// and call visit_tensors on its members there.

struct OutputTensors {
  std::vector<at::Tensor*> places;
};

inline void visit_tensors(at::Tensor& tensor, OutputTensors& found) {
  found.places.push_back(&tensor);
}

// All are declared before they are defined, so that any nesting works.
template <class Element>
void visit_tensors(std::vector<Element>& elements, OutputTensors& found);
template <class First, class Second>
void visit_tensors(std::pair<First, Second>& both, OutputTensors& found);
template <class... Elements>
void visit_tensors(std::tuple<Elements...>& elements, OutputTensors& found);

template <class Element>
void visit_tensors(std::vector<Element>& elements, OutputTensors& found) {
  for (Element& element : elements) visit_tensors(element, found);
}

template <class First, class Second>
void visit_tensors(std::pair<First, Second>& both, OutputTensors& found) {
  visit_tensors(both.first, found);
  visit_tensors(both.second, found);
}

template <class... Elements>
void visit_tensors(std::tuple<Elements...>& elements, OutputTensors& found) {
  std::apply([&found](auto&... each) { (visit_tensors(each, found), ...); }, elements);
}

// `Module` holds a module: a ModuleHolder (`Net` of TORCH_MODULE(Net)) or a shared_ptr. May be
// moved, also between steps.
template <class Module>
class DistributedDataParallel {
 public:
  // Checks that all ranks have the same model and copies the values of rank 0 to all. Every rank
  // must construct it. Throws if the models differ or no parameter can be trained.
  DistributedDataParallel(Module module, const ProcessGroup& group, const DdpOptions& options = {})
      : module_(std::move(module)),
        core_(std::make_unique<DdpCore>(parameters_of(*module_), buffers_of(*module_),
                                        module_->name(), group, options)) {}

  template <class... Inputs>
  auto forward(Inputs&&... inputs) {
    core_->before_forward();
    auto output = module_->forward(std::forward<Inputs>(inputs)...);
    OutputTensors tensors;
    visit_tensors(output, tensors);
    core_->after_forward(tensors.places);
    return output;
  }

  template <class... Inputs>
  auto operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  // While the guard exists, gradients only accumulate locally; the first backward after it reduces
  // the sum: `{ auto local = ddp.no_sync(); … }`.
  [[nodiscard]] NoSync no_sync() { return NoSync(*core_); }

  // Use this (or FusedSgd's) with gradient_as_bucket_view: torch::optim's zero_grad throws on
  // views.
  void zero_grad(bool set_to_none = false) { core_->zero_grad(set_to_none); }

  // For Join (join.h): ranks with different numbers of batches.
  Joinable& joinable() { return *core_; }

  // For evaluation on one rank, saving and the like.
  Module& module() { return module_; }
  // Each once, also a tensor that is registered under two names.
  std::vector<at::Tensor> parameters() {
    std::vector<at::Tensor> found;
    for (const NamedTensor& each : parameters_of(*module_)) found.push_back(each.tensor);
    return found;
  }

 private:
  Module module_;
  std::unique_ptr<DdpCore> core_;  // its address is part of the graph
};

}  // namespace cpprun
