// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/device_choice.h"

#include <fmt/format.h>

#include <algorithm>

namespace cpprun {
namespace {

std::string mask_of(const Context& context) {
  return context.cuda_visible_devices
             ? fmt::format("CUDA_VISIBLE_DEVICES={}", *context.cuda_visible_devices)
             : "CUDA_VISIBLE_DEVICES is not set";
}

}  // namespace

Result<int> choose_cuda_device(const Context& context, int visible) {
  const int local = context.local_rank.value;
  if (visible == 0 && context.cuda_visible_devices && context.cuda_visible_devices->empty()) {
    return failure(fmt::format(
        "local rank {} sees no GPU because CUDA_VISIBLE_DEVICES is empty: unset it, or list the "
        "devices, or use backend gloo on the CPU",
        local));
  }
  if (visible == 0) {
    return failure(fmt::format(
        "local rank {} sees no GPU ({}): check that nvidia-smi lists one here and that LibTorch "
        "supports the driver, or use backend gloo on the CPU",
        local, mask_of(context)));
  }
  if (takes_masked_device(context, visible)) return 0;
  if (local < visible) return local;
  const int wanted = std::max(context.local_world_size, local + 1);
  return failure(fmt::format(
      "local rank {} has no GPU of its own: {} visible for {} workers ({}); start at most {} here "
      "(--nproc-per-node={}, or --nproc-per-node=gpu), or use backend gloo on the CPU",
      local, visible, wanted, mask_of(context), visible, visible));
}

// The mask of each worker has one device: the launcher or the batch system distributed them.
bool takes_masked_device(const Context& context, int visible) {
  return visible == 1 && context.cuda_visible_devices &&
         context.cuda_visible_devices->find(',') == std::string::npos;
}

std::string shared_mask(const Context& context) {
  return fmt::format(
      "local rank {} shares its GPU with another worker: both have CUDA_VISIBLE_DEVICES={}, and "
      "nccl needs one GPU for each; list {} devices there for {} workers, or start one worker "
      "(--nproc-per-node=1), or use backend gloo",
      context.local_rank.value, context.cuda_visible_devices.value_or(""), context.local_world_size,
      context.local_world_size);
}

bool each_worker_has_a_device(const Context& context, int visible) {
  Context last = context;
  last.local_rank.value = std::max(context.local_rank.value, context.local_world_size - 1);
  return choose_cuda_device(last, visible).has_value();
}

}  // namespace cpprun
