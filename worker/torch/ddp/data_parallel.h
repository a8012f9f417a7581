// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One process, several devices: the module is copied to each, the batch divided, the outputs
// joined. Kept for comparison with DistributedDataParallel, which is faster because it copies no
// models and no thread waits for another. On the CPU the replicas share its cores. LibTorch's own
// torch::nn::parallel needs CUDA's headers even for that.
//
//   cpprun::DataParallel<Net> parallel(net, cpprun::all_devices(/*cpu_replicas=*/2));
//   auto loss = loss_of(parallel.forward(images), labels);
//
// Include torch/torch.h (or what defines the module) yourself. The module's type has to be
// Cloneable, and its forward to take one tensor and return one.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "worker/torch/group/device.h"
#include "worker/torch/group/distributed_error.h"

namespace cpprun {

// The rows of a batch in order, in pieces as equal as can be, each on its device. A short batch has
// fewer pieces than there are devices.
std::vector<at::Tensor> scatter_batch(const at::Tensor& batch,
                                      const std::vector<c10::Device>& devices);

// Calls `forward` for each piece on a thread of its own, on the piece's device, and joins the
// outputs in order on the first one's. The first exception is thrown when all have ended.
at::Tensor apply_in_parallel(const std::vector<at::Tensor>& pieces,
                             const std::function<at::Tensor(std::size_t)>& forward);

// Gradients that reach the replica's parameters are added to the original's, one for one. Backward
// has a thread for each GPU, so all replicas of one original share a `turn`.
void forward_gradients(const std::vector<at::Tensor>& replica,
                       const std::vector<at::Tensor>& original,
                       const std::shared_ptr<std::mutex>& turn);

// Takes over what the replica's buffers hold.
void copy_buffers(const std::vector<at::Tensor>& replica, const std::vector<at::Tensor>& original);

// `Module` is a ModuleHolder: `Net` of TORCH_MODULE(Net).
template <class Module>
class DataParallel {
 public:
  // The module itself lives on the first device, and so do the outputs. A device may be named more
  // than once.
  DataParallel(Module module, std::vector<c10::Device> devices)
      : module_(std::move(module)), devices_(std::move(devices)) {
    if (devices_.empty()) throw DistributedError("DataParallel needs at least one device");
    module_->to(devices_.front());
  }

  // The gradients of all replicas add up in the module's own parameters. As in Python, running
  // statistics are those of the first replica.
  at::Tensor forward(const at::Tensor& input) {
    const std::vector<at::Tensor> pieces = scatter_batch(input, devices_);
    if (pieces.size() < 2) return module_->forward(pieces.front());
    using Impl = typename Module::ContainedType;
    std::vector<std::shared_ptr<Impl>> replicas;
    const auto turn = std::make_shared<std::mutex>();
    for (const at::Tensor& piece : pieces) {
      replicas.push_back(std::dynamic_pointer_cast<Impl>(module_->clone(piece.device())));
      forward_gradients(replicas.back()->parameters(), module_->parameters(), turn);
    }
    at::Tensor joined =
        apply_in_parallel(pieces, [&](std::size_t i) { return replicas[i]->forward(pieces[i]); });
    copy_buffers(replicas.front()->buffers(), module_->buffers());
    return joined;
  }

  Module& module() { return module_; }
  const std::vector<c10::Device>& devices() const { return devices_; }

 private:
  Module module_;
  std::vector<c10::Device> devices_;
};

}  // namespace cpprun
