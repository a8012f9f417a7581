// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace cpprun {

namespace {

// Each says that these GPUs alone are meant.
constexpr std::array<std::string_view, 5> choosing = {"CUDA_VISIBLE_DEVICES",
                                                      "NVIDIA_VISIBLE_DEVICES", "SLURM_JOB_GPUS",
                                                      "SLURM_STEP_GPUS", "GPU_DEVICE_ORDINAL"};

bool is_given_some(const Environment& environment) {
  return std::ranges::any_of(choosing, [&](std::string_view name) {
    const auto* value = find_variable(environment, name);
    return value != nullptr && !value->empty() && *value != "all";
  });
}

}  // namespace

int gpus_there(const GpuCounts& counts) {
  return std::max({counts.on_bus, counts.in_driver, counts.usable});
}

std::optional<std::string> missing_gpus(const GpuCounts& counts, const Environment& environment) {
  const int there = gpus_there(counts);
  // Without a driver nobody has meant to use them.
  if (counts.in_driver == 0 || counts.usable >= there || is_given_some(environment)) {
    return std::nullopt;
  }
  if (counts.usable < counts.in_driver) {
    return fmt::format(
        "{} of {} GPUs can be used: the driver has {}, and {} of them cannot be opened as "
        "/dev/nvidia<n>; look at their owner and mode, and at the devices of this container",
        counts.usable, there, counts.in_driver, counts.in_driver - counts.usable);
  }
  return fmt::format(
      "{} of {} GPUs can be used: PCI lists {}, and the driver has {}; nvidia-smi and "
      "\"dmesg | grep -i xid\" tell which one is lost and why, and a reset or a reboot brings it "
      "back",
      counts.usable, there, counts.on_bus, counts.in_driver);
}

}  // namespace cpprun
