// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// --numa-binding: on which processors each worker runs, and sets of processors as text.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/config.h"
#include "proto/result.h"

namespace cpprun {

// Sets of processors in the kernel's own spelling: "0-2,4,6-7".
using CpuSet = std::set<int>;

// Skips what is not a number: the kernel writes none, and no other text comes here.
CpuSet parse_cpu_list(std::string_view text);

std::string to_cpu_list(const CpuSet& cpus);

// --numa-binding: on which processors each worker runs, so that it is near its GPU. Pure: what the
// machine looks like comes in as a Topology, which io/host.h reads.
//
// A worker's GPU is the one whose number is its local rank. On a machine without GPUs the workers
// are spread over the NUMA nodes in order, as if each had a GPU there; torchrun fails on it.

// The lowest processor of a group stands for the group.
struct CpuPlace {
  int core = 0;    // processors that are threads of one core
  int socket = 0;  // the package's number
  int cache = 0;   // processors that share the cache of the highest level
  friend bool operator==(const CpuPlace&, const CpuPlace&) = default;
};

struct Topology {
  std::map<int, CpuPlace> cpus;     // those that cpprun itself may use
  std::map<int, CpuSet> nodes;      // by number; processors that may not be used are here too
  std::vector<int> node_of_device;  // by the number under which workers see the device
  friend bool operator==(const Topology&, const Topology&) = default;
};

// By local rank. Fails if a worker would have no device or no processor.
Result<std::vector<CpuSet>> bind_workers(NumaBinding binding, const Topology& topology,
                                         int local_world_size);

struct WorkerBinding {
  std::vector<CpuSet> cpus;        // by local rank
  std::vector<std::string> notes;  // worth saying at the start
  friend bool operator==(const WorkerBinding&, const WorkerBinding&) = default;
};

// The whole of --numa-binding, from what could be found out of the machine; an error names the
// flag. `devices`: how many GPUs the workers see. Where there are some and the topology has none,
// nobody can tell what is near them.
Result<WorkerBinding> settle_binding(NumaBinding binding, const Result<Topology>& topology,
                                     int devices, int local_world_size);

// "node", "socket", "exclusive", "core-complex"; nothing for any other word.
std::optional<NumaBinding> numa_binding_named(std::string_view name);

// "local ranks 0-3 on 0-31, local ranks 4-7 on 32-63".
std::string to_text(const std::vector<CpuSet>& cpus_by_rank);

}  // namespace cpprun
