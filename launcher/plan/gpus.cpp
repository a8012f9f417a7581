// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "proto/text.h"

namespace cpprun {

namespace {

// Each of these restricts the process to some GPUs.
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
  // Without a driver the GPUs are not meant to be used.
  if (counts.in_driver == 0 || counts.usable >= there || is_given_some(environment)) {
    return std::nullopt;
  }
  if (counts.usable < counts.in_driver) {
    return fmt::format(
        "{} of {} GPUs can be used: the driver has {}, but {} of their device files /dev/nvidia<n> "
        "cannot be opened; check their owner and mode, and the devices of this container",
        counts.usable, there, counts.in_driver, counts.in_driver - counts.usable);
  }
  return fmt::format(
      "{} of {} GPUs can be used: the PCI bus has {}, the driver has {}; find the lost GPU with "
      "nvidia-smi and \"dmesg | grep -i xid\", then reset it or reboot",
      counts.usable, there, counts.on_bus, counts.in_driver);
}

namespace {

// True for "nvidia0", false for "nvidiactl" and "nvidia-uvm".
bool is_device(std::string_view name) {
  constexpr std::string_view beginning = "nvidia";
  if (!name.starts_with(beginning)) return false;
  const auto number = exact_number<int>(name.substr(beginning.size()));
  return number && *number >= 0;
}

// As CUDA reads the variable: entries count up to the first that is not a device.
int count_visible(std::string_view list, int there) {
  int count = 0;
  for (const std::string_view part : split(list, ',')) {
    const auto entry = trimmed(part);
    const auto index = exact_number<int>(entry);
    const bool device = index ? *index >= 0 && *index < there
                              : entry.starts_with("GPU-") || entry.starts_with("MIG-");
    if (!device) break;
    ++count;
  }
  return count;
}

}  // namespace

int count_devices(const std::vector<std::string>& device_files, const Environment& environment) {
  const auto there = static_cast<int>(std::ranges::count_if(device_files, is_device));
  const auto* visible = find_variable(environment, "CUDA_VISIBLE_DEVICES");
  return visible == nullptr || there == 0 ? there : count_visible(*visible, there);
}

}  // namespace cpprun
