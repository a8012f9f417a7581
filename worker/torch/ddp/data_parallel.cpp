// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/ddp/data_parallel.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <c10/core/DeviceGuard.h>

#include <exception>
#include <thread>

namespace cpprun {

std::vector<at::Tensor> scatter_batch(const at::Tensor& batch,
                                      const std::vector<c10::Device>& devices) {
  std::vector<at::Tensor> pieces = batch.chunk(static_cast<std::int64_t>(devices.size()), 0);
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = pieces[i].to(devices[i]);
  return pieces;
}

at::Tensor apply_in_parallel(const std::vector<at::Tensor>& pieces,
                             const std::function<at::Tensor(std::size_t)>& forward) {
  std::vector<at::Tensor> outputs(pieces.size());
  std::vector<std::exception_ptr> failures(pieces.size());
  // Gradient mode is set per thread.
  const at::ThreadLocalState state;
  const auto run = [&](std::size_t i) {
    const at::ThreadLocalStateGuard same_state(state);
    const c10::DeviceGuard on_device(pieces[i].device());
    try {
      outputs[i] = forward(i);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < pieces.size(); ++i) threads.emplace_back(run, i);
  run(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  for (at::Tensor& output : outputs) output = output.to(pieces.front().device());
  return at::cat(outputs);
}

void forward_gradients(const std::vector<at::Tensor>& replica,
                       const std::vector<at::Tensor>& original,
                       const std::shared_ptr<std::mutex>& turn) {
  for (std::size_t i = 0; i < replica.size(); ++i) {
    if (!original[i].requires_grad()) continue;
    replica[i].register_hook([target = original[i], turn](const at::Tensor& gradient) {
      const at::NoGradGuard no_grad;
      const std::lock_guard<std::mutex> mine(*turn);
      at::Tensor& sum = target.mutable_grad();
      if (sum.defined()) {
        sum.add_(gradient.to(target.device()));
      } else {
        sum = gradient.detach().to(target.device(), /*non_blocking=*/false, /*copy=*/true);
      }
    });
  }
}

void copy_buffers(const std::vector<at::Tensor>& replica, const std::vector<at::Tensor>& original) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < replica.size(); ++i) original[i].copy_(replica[i]);
}

}  // namespace cpprun
