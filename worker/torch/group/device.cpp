// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "worker/torch/group/device_choice.h"
#include "worker/torch/group/distributed_error.h"

namespace cpprun {

int cuda_device_count() {
  return at::globalContext().hasCUDA() ? torch::cuda::device_count() : 0;
}

c10::Device bind_cuda_device(const Context& context) {
  if (!at::hasCUDA() && !context.cuda_visible_devices) {
    throw DistributedError(
        "no usable CUDA device: LibTorch was built without CUDA, or finds no driver; use the CPU "
        "with backend gloo");
  }
  const auto index = choose_cuda_device(context, cuda_device_count());
  if (!index) throw DistributedError(index.error().reason);
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(*index));
  // Through LibTorch's own indirection, so that this file needs no CUDA header.
  c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(device);
  return device;
}

void claim_masked_device(const Context& context, int visible, c10d::Store& store) {
  if (context.local_world_size < 2 || !takes_masked_device(context, visible)) return;
  // Launchers other than torchrun and cpprun do not number the hosts.
  std::array<char, 256> host = {};
  static_cast<void>(gethostname(host.data(), host.size() - 1));
  const std::string key = fmt::format("cpprun/gpu/{}/{}/{}", context.group_rank.value, host.data(),
                                      *context.cuda_visible_devices);
  // The first worker's number stays. So the same worker may join again.
  const std::string own = std::to_string(context.local_rank.value);
  if (store.compareSet(key, "", own) != own) throw DistributedError(shared_mask(context));
}

c10::Device default_device(const Context& context) {
  return cuda_device_count() > 0 ? bind_cuda_device(context) : c10::Device(c10::kCPU);
}

std::vector<c10::Device> all_devices(int cpu_replicas) {
  std::vector<c10::Device> devices;
  const int count = cuda_device_count();
  for (int i = 0; i < count; ++i) {
    devices.emplace_back(c10::kCUDA, static_cast<c10::DeviceIndex>(i));
  }
  const auto replicas = static_cast<std::size_t>(cpu_replicas);
  if (devices.empty()) devices.assign(replicas, c10::Device(c10::kCPU));
  return devices;
}

namespace {

std::optional<at::Generator> generator_of(c10::DeviceType device) {
  if (device == c10::kCPU) return at::detail::getDefaultCPUGenerator();
  if (cuda_device_count() == 0) return std::nullopt;
  return at::globalContext().defaultGenerator(
      c10::Device(device, c10::impl::VirtualGuardImpl(device).getDevice().index()));
}

}  // namespace

at::Tensor random_state(c10::DeviceType device) {
  auto generator = generator_of(device);
  if (!generator) return {};
  const std::scoped_lock lock(generator->mutex());
  return generator->get_state();
}

void set_random_state(c10::DeviceType device, const at::Tensor& state) {
  auto generator = generator_of(device);
  if (!generator) return;
  const std::scoped_lock lock(generator->mutex());
  generator->set_state(state.clone());
}

}  // namespace cpprun
