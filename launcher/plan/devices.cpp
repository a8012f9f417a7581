// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/devices.h"

#include <algorithm>
#include <string_view>

#include "proto/text.h"

namespace cpprun {

namespace {

// "nvidia0", but not "nvidiactl" or "nvidia-uvm".
bool is_device(std::string_view name) {
  constexpr std::string_view beginning = "nvidia";
  if (!name.starts_with(beginning)) return false;
  const auto number = exact_number<int>(name.substr(beginning.size()));
  return number && *number >= 0;
}

// What CUDA makes of its variable: entries up to the first that is no device.
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
