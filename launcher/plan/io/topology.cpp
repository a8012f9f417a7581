// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/io/topology.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

#include "proto/bounds.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun::io {

namespace {

namespace fs = std::filesystem;

std::string trimmed_text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return std::string(trimmed(text.str()));
}

// The folders in `folder` that are called `beginning` and a number, by that number.
std::map<int, fs::path> numbered(const fs::path& folder, std::string_view beginning) {
  std::map<int, fs::path> found;
  std::error_code missing;  // then there are none
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(beginning)) continue;
    if (const auto number = exact_number<int>(std::string_view(name).substr(beginning.size()))) {
      found[*number] = entry.path();
    }
  }
  return found;
}

int lowest_or(const CpuSet& cpus, int otherwise) {
  return cpus.empty() ? otherwise : *cpus.begin();
}

// The processors that share the highest data cache of this one.
CpuSet cache_sharers(const fs::path& cpu) {
  CpuSet sharers;
  int highest = -1;
  for (const auto& [index, cache] : numbered(cpu / "cache", "index")) {
    const auto type = trimmed_text_of(cache / "type");
    const auto level = exact_number<int>(trimmed_text_of(cache / "level")).value_or(-1);
    if ((type != "Unified" && type != "Data") || level <= highest) continue;
    highest = level;
    sharers = parse_cpu_list(trimmed_text_of(cache / "shared_cpu_list"));
  }
  return sharers;
}

CpuPlace place_of(const fs::path& cpu, int number) {
  return {.core = lowest_or(parse_cpu_list(trimmed_text_of(cpu / "topology/thread_siblings_list")),
                            number),
          .socket =
              exact_number<int>(trimmed_text_of(cpu / "topology/physical_package_id")).value_or(0),
          .cache = lowest_or(cache_sharers(cpu), number)};
}

// A GPU as the driver shows it.
struct Device {
  std::string uuid;
  int node = 0;
};

std::string field(const std::string& information, std::string_view name) {
  const auto at = information.find(name);
  if (at == std::string::npos) return "";
  auto value = information.substr(at + name.size());
  value = value.substr(0, value.find('\n'));
  const auto begin = value.find_first_not_of(": \t");
  return begin == std::string::npos ? "" : value.substr(begin);
}

// Those that have a device file: a container sees only some of the machine's.
std::vector<Device> devices_of(const fs::path& root) {
  std::map<std::string, Device> by_place;
  std::error_code missing;  // then there is no such driver
  for (const auto& entry : fs::directory_iterator(root / "proc/driver/nvidia/gpus", missing)) {
    const auto place = entry.path().filename().string();
    const auto information = trimmed_text_of(entry.path() / "information");
    const auto file = root / ("dev/nvidia" + field(information, "Device Minor"));
    if (std::error_code unknown; !fs::exists(file, unknown)) continue;
    const auto node = trimmed_text_of(root / "sys/bus/pci/devices" / place / "numa_node");
    // -1 is said on machines with one node only.
    by_place[place] = {.uuid = field(information, "GPU UUID"),
                       .node = std::max(exact_number<int>(node).value_or(0), 0)};
  }
  std::vector<Device> devices;
  for (auto& [place, device] : by_place) devices.push_back(std::move(device));
  return devices;
}

// The devices in the order in which the workers see them.
Result<std::vector<int>> visible_nodes(const std::vector<Device>& devices,
                                       const std::string* visible) {
  std::vector<int> nodes;
  if (visible == nullptr) {
    for (const auto& device : devices) nodes.push_back(device.node);
    return nodes;
  }
  std::istringstream list(*visible);
  for (std::string entry; !devices.empty() && std::getline(list, entry, ',');) {
    std::erase(entry, ' ');
    const auto index = exact_number<int>(entry);
    const auto found = std::find_if(devices.begin(), devices.end(), [&](const Device& device) {
      return entry.starts_with("GPU-") && device.uuid.starts_with(entry);
    });
    if (index && *index >= 0 && static_cast<std::size_t>(*index) < devices.size()) {
      nodes.push_back(devices[static_cast<std::size_t>(*index)].node);
    } else if (found != devices.end()) {
      nodes.push_back(found->node);
    } else {
      return failure(fmt::format("{}={} names \"{}\", and where that is cannot be told",
                                 contract::cuda_visible_devices, *visible, entry));
    }
  }
  return nodes;
}

}  // namespace

Result<Topology> read_topology(const Environment& environment, const CpuSet& allowed,
                               const std::string& root) {
  const fs::path top = root.empty() ? "/" : root;
  Topology topology;
  for (const auto& [number, path] : numbered(top / "sys/devices/system/cpu", "cpu")) {
    if (allowed.contains(number)) topology.cpus[number] = place_of(path, number);
  }
  for (const auto& [number, path] : numbered(top / "sys/devices/system/node", "node")) {
    topology.nodes[number] = parse_cpu_list(trimmed_text_of(path / "cpulist"));
  }
  // A kernel without NUMA shows no nodes: everything is on one.
  if (topology.nodes.empty()) topology.nodes[0] = allowed;
  auto nodes =
      visible_nodes(devices_of(top), find_variable(environment, contract::cuda_visible_devices));
  if (!nodes) return tl::unexpected(nodes.error());
  topology.node_of_device = std::move(*nodes);
  return topology;
}

CpuSet own_cpus() {
  std::vector<cpu_set_t> mask(bounds::cpus_max / CPU_SETSIZE);
  const auto bytes = mask.size() * sizeof(cpu_set_t);
  CpuSet cpus;
  if (::sched_getaffinity(0, bytes, mask.data()) != 0) return cpus;
  for (int cpu = 0; cpu < bounds::cpus_max; ++cpu) {
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask.data())) cpus.insert(cpu);
  }
  return cpus;
}

}  // namespace cpprun::io
