// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "proto/link/bounds.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun {

namespace {

std::optional<int> processor(std::string_view text) {
  const auto number = exact_number<int>(trimmed(text));
  return number && *number >= 0 && *number < bounds::cpus_max ? number : std::nullopt;
}

}  // namespace

CpuSet parse_cpu_list(std::string_view text) {
  CpuSet cpus;
  for (const std::string_view range : split(text, ',')) {
    const auto dash = range.find('-');
    const auto first = processor(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : processor(range.substr(dash + 1));
    if (!first || !last) continue;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
  }
  return cpus;
}

std::string to_cpu_list(const CpuSet& cpus) {
  std::string text;
  for (auto at = cpus.begin(); at != cpus.end();) {
    const int first = *at;
    int last = first;
    while (++at != cpus.end() && *at == last + 1) last = *at;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last != first) text += fmt::format("-{}", last);
  }
  return text;
}

namespace {

constexpr std::array<std::pair<std::string_view, NumaBinding>, 4> binding_names = {{
    {"node", NumaBinding::node},
    {"socket", NumaBinding::socket},
    {"exclusive", NumaBinding::exclusive},
    {"core-complex", NumaBinding::core_complex},
}};

CpuSet allowed_on(const Topology& topology, int node) {
  CpuSet cpus;
  const auto found = topology.nodes.find(node);
  if (found == topology.nodes.end()) return cpus;
  for (const int cpu : found->second) {
    if (topology.cpus.contains(cpu)) cpus.insert(cpu);
  }
  return cpus;
}

// The NUMA node of each worker: that of its device. Without devices, workers are spread evenly and
// in order over the nodes that have usable CPUs.
Result<std::vector<int>> nodes_of_workers(const Topology& topology, int workers) {
  const auto devices = static_cast<int>(topology.node_of_device.size());
  if (devices > 0) {
    if (workers > devices) {
      return failure(fmt::format(
          "{} GPUs for {} workers, but each worker needs its own GPU\n  hint: start at most one "
          "worker per GPU",
          devices, workers));
    }
    return std::vector<int>(topology.node_of_device.begin(),
                            topology.node_of_device.begin() + workers);
  }
  std::vector<int> usable;
  for (const auto& [node, cpus] : topology.nodes) {
    if (!allowed_on(topology, node).empty()) usable.push_back(node);
  }
  if (usable.empty()) return failure("no NUMA node has a CPU that cpprun is allowed to use");
  std::vector<int> result;
  for (int worker = 0; worker < workers; ++worker) {
    const auto nodes = static_cast<int>(usable.size());
    result.push_back(usable[static_cast<std::size_t>(worker * nodes / workers)]);
  }
  return result;
}

CpuSet on_socket_of(const Topology& topology, int node) {
  const auto here = allowed_on(topology, node);
  if (here.empty()) return here;
  const int socket = topology.cpus.at(*here.begin()).socket;
  CpuSet cpus;
  for (const auto& [each, unused] : topology.nodes) {
    const auto there = allowed_on(topology, each);
    // A node belongs to one socket, so its first CPU identifies the socket.
    if (!there.empty() && topology.cpus.at(*there.begin()).socket == socket) {
      cpus.insert(there.begin(), there.end());
    }
  }
  return cpus;
}

using Groups = std::vector<CpuSet>;

// Groups CPUs by one field of CpuLocation, in order of the lowest CPU.
Groups grouped(const Topology& topology, const CpuSet& cpus, int CpuLocation::*respect) {
  std::map<int, CpuSet> by_place;
  for (const int cpu : cpus) by_place[topology.cpus.at(cpu).*respect].insert(cpu);
  Groups groups;
  for (auto& [place, group] : by_place) groups.push_back(std::move(group));
  return groups;
}

// The `position`th of `sharers` equal shares of the cores. The first shares take the remainder.
Result<CpuSet> share_of_cores(const Groups& cores, int node, std::size_t position,
                              std::size_t sharers) {
  const auto each = cores.size() / sharers;
  const auto rest = cores.size() % sharers;
  if (each == 0) {
    return failure(fmt::format("NUMA node {} has {} cores, too few for {} workers", node,
                               cores.size(), sharers));
  }
  const auto begin = position * each + std::min(position, rest);
  CpuSet cpus;
  for (auto core = begin; core < begin + each + (position < rest ? 1 : 0); ++core) {
    cpus.insert(cores[core].begin(), cores[core].end());
  }
  return cpus;
}

// Caches are assigned round-robin, the largest first.
CpuSet core_complex(Groups caches, std::size_t position) {
  std::stable_sort(caches.begin(), caches.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return caches.empty() ? CpuSet{} : caches[position % caches.size()];
}

}  // namespace

Result<std::vector<CpuSet>> bind_workers(NumaBinding binding, const Topology& topology,
                                         int local_world_size) {
  const auto nodes = nodes_of_workers(topology, local_world_size);
  if (!nodes) return tl::unexpected(nodes.error());
  // Which workers share a node: one per device, used or not, as in torchrun; without devices, the
  // workers themselves.
  const auto& sharing = topology.node_of_device.empty() ? *nodes : topology.node_of_device;
  std::vector<CpuSet> result;
  for (int worker = 0; worker < local_world_size; ++worker) {
    const int node = (*nodes)[static_cast<std::size_t>(worker)];
    const auto position =
        static_cast<std::size_t>(std::count(sharing.begin(), sharing.begin() + worker, node));
    const auto sharers = static_cast<std::size_t>(std::count(sharing.begin(), sharing.end(), node));
    CpuSet cpus = allowed_on(topology, node);
    if (binding == NumaBinding::socket) cpus = on_socket_of(topology, node);
    if (binding == NumaBinding::exclusive) {
      auto share =
          share_of_cores(grouped(topology, cpus, &CpuLocation::core), node, position, sharers);
      if (!share) return tl::unexpected(share.error());
      cpus = std::move(*share);
    }
    if (binding == NumaBinding::core_complex) {
      cpus = core_complex(grouped(topology, cpus, &CpuLocation::cache), position);
    }
    if (cpus.empty()) {
      return failure(
          fmt::format("local rank {} needs NUMA node {}, but cpprun may not use any of its CPUs",
                      worker, node));
    }
    result.push_back(std::move(cpus));
  }
  return result;
}

Result<WorkerBinding> resolve_binding(NumaBinding binding, const Result<Topology>& topology,
                                      int devices, int local_world_size) {
  const auto refuse = [](const std::string& why) { return failure("--numa-binding: " + why); };
  if (!topology) return refuse(topology.error().reason);
  const bool places_known = !topology->node_of_device.empty();
  if (!places_known && devices > 0) {
    return refuse("cannot find out where the GPUs are: /proc/driver/nvidia/gpus lists none");
  }
  auto cpus = bind_workers(binding, *topology, local_world_size);
  if (!cpus) return refuse(cpus.error().reason);
  WorkerBinding resolved{.cpus = std::move(*cpus), .notes = {}};
  resolved.notes.push_back("CPU binding: " + to_text(resolved.cpus));
  if (!places_known) {
    resolved.notes.emplace_back("no GPU found; spreading the workers over the NUMA nodes");
  }
  return resolved;
}

std::optional<NumaBinding> numa_binding_named(std::string_view name) {
  for (const auto& [each, binding] : binding_names) {
    if (each == name) return binding;
  }
  return std::nullopt;
}

std::string to_text(const std::vector<CpuSet>& cpus_by_rank) {
  std::string text;
  for (std::size_t first = 0; first < cpus_by_rank.size();) {
    auto last = first;
    while (last + 1 < cpus_by_rank.size() && cpus_by_rank[last + 1] == cpus_by_rank[first]) ++last;
    const auto whom = first == last ? fmt::format("local rank {} ", first)
                                    : fmt::format("local ranks {}-{} ", first, last);
    text +=
        fmt::format("{}{}on {}", text.empty() ? "" : ", ", whom, to_cpu_list(cpus_by_rank[first]));
    first = last + 1;
  }
  return text;
}

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
        "cannot be opened\n  hint: check their owner and mode, and the devices of this container",
        counts.usable, there, counts.in_driver, counts.in_driver - counts.usable);
  }
  return fmt::format(
      "{} of {} GPUs can be used: the PCI bus has {}, the driver has {}\n  hint: find the lost GPU "
      "with nvidia-smi and \"dmesg | grep -i xid\", then reset it or reboot",
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
  for (const std::string& entry : listed_devices(list)) {
    const auto index = exact_number<int>(entry);
    const bool device = index ? *index >= 0 && *index < there
                              : entry.starts_with("GPU-") || entry.starts_with("MIG-");
    if (!device) break;
    ++count;
  }
  return count;
}

}  // namespace

VisibleDevices visible_devices(const Environment& environment) {
  const auto* hip = find_variable(environment, contract::hip_visible_devices);
  if (hip != nullptr && !hip->empty()) return {contract::hip_visible_devices, hip};
  return {contract::cuda_visible_devices,
          find_variable(environment, contract::cuda_visible_devices)};
}

std::vector<std::string> listed_devices(std::string_view list) {
  std::vector<std::string> entries;
  for (const std::string_view entry : split(list, ',')) entries.emplace_back(trimmed(entry));
  if (entries.back().empty()) entries.pop_back();
  return entries;
}

int count_devices(const std::vector<std::string>& device_files, const Environment& environment) {
  const auto there = static_cast<int>(std::ranges::count_if(device_files, is_device));
  const auto* visible = find_variable(environment, "CUDA_VISIBLE_DEVICES");
  return visible == nullptr || there == 0 ? there : count_visible(*visible, there);
}

}  // namespace cpprun
