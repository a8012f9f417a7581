// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One process, several devices: copies the module to each, divides the batch and joins the outputs.
// For comparison: DistributedDataParallel is faster, because it copies no models and no thread
// waits for another. On the CPU the replicas share the cores. LibTorch's torch::nn::parallel would
// need CUDA's headers even there.
//
//   cpprun::DataParallel<Net> parallel(net, cpprun::all_devices(/*cpu_replicas=*/2));
//   auto loss = loss_of(parallel.forward(images), labels);
//
// Include torch/torch.h (or what defines the module) yourself. The module must be Cloneable, and
// its forward must take one tensor and return one.

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

// Splits the rows of a batch in order into pieces of nearly equal size, each on its device. A short
// batch gives fewer pieces than devices.
std::vector<at::Tensor> scatter_batch(const at::Tensor& batch,
                                      const std::vector<c10::Device>& devices);

// Calls `forward` for each piece on its own thread, on the piece's device. Joins the outputs in
// order on the first device. When all threads have ended, rethrows the first exception.
at::Tensor apply_in_parallel(const std::vector<at::Tensor>& pieces,
                             const std::function<at::Tensor(std::size_t)>& forward);

// Adds gradients of the replica's parameters to those of the original, one for one. Backward uses a
// thread for each GPU, so all replicas of an original must share one `turn`.
void forward_gradients(const std::vector<at::Tensor>& replica,
                       const std::vector<at::Tensor>& original,
                       const std::shared_ptr<std::mutex>& turn);

// Copies the values of the replica's buffers to the original's.
void copy_buffers(const std::vector<at::Tensor>& replica, const std::vector<at::Tensor>& original);

// `Module` is a ModuleHolder: `Net` of TORCH_MODULE(Net).
template <class Module>
class DataParallel {
 public:
  // The module itself and the outputs are on the first device. A device may occur more than once.
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
