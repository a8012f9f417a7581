// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The device of this worker: its GPU where LibTorch has CUDA and there is one, else the CPU.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

#include "worker/env/context.h"

namespace c10d {
class Store;
}  // namespace c10d

namespace cpprun {

// The CUDA devices this process sees; zero where LibTorch was built without CUDA.
int cuda_device_count();

// Makes the GPU of index LOCAL_RANK the current one and returns it. Call it before the first CUDA
// tensor. Throws DistributedError with advice if this rank has no GPU.
c10::Device bind_cuda_device(const Context& context);

// Throws DistributedError if another worker of this host has the same only device in its
// CUDA_VISIBLE_DEVICES; NCCL would refuse them later, or hang. A worker may call it again, for
// example when it joins again. `visible`: cuda_device_count().
void claim_masked_device(const Context& context, int visible, c10d::Store& store);

// bind_cuda_device() where LibTorch has CUDA and sees a device, otherwise the CPU.
c10::Device default_device(const Context& context);

// For DataParallel: every CUDA device this process sees. Without one, the CPU `cpu_replicas` times.
std::vector<c10::Device> all_devices(int cpu_replicas);

// The state of the random generator of the CPU, or of this thread's GPU: a tensor of bytes on the
// CPU, undefined where there is no such device.
at::Tensor random_state(c10::DeviceType device);
void set_random_state(c10::DeviceType device, const at::Tensor& state);

}  // namespace cpprun
