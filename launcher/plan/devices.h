// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The CPUs and GPUs of a machine: the CPUs on which each worker runs (--numa-binding), CPU sets as
// text, how many GPUs a worker would see, and whether all GPUs are usable.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/config.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

// A set of logical CPUs; as text in the kernel's notation: "0-2,4,6-7".
using CpuSet = std::set<int>;

// Skips anything that is not a number. The input always comes from the kernel.
CpuSet parse_cpu_list(std::string_view text);

std::string to_cpu_list(const CpuSet& cpus);

// Places each worker near its GPU. Pure: io/host.h reads the machine's Topology.
//
// A worker's GPU is the device whose index is its local rank. On a machine without GPUs the workers
// are spread over the NUMA nodes in order, as if each had a GPU there; torchrun fails in that case.

// Each group of CPUs is identified by its lowest CPU.
struct CpuLocation {
  int core = 0;    // the hyperthreads of one core
  int socket = 0;  // package number
  int cache = 0;   // CPUs that share the highest-level cache
  friend bool operator==(const CpuLocation&, const CpuLocation&) = default;
};

struct Topology {
  std::map<int, CpuLocation> cpus;  // CPUs that cpprun itself may use
  std::map<int, CpuSet> nodes;      // by node number; includes CPUs that cpprun may not use
  std::vector<int> node_of_device;  // by the index under which workers see the device
  friend bool operator==(const Topology&, const Topology&) = default;
};

// One CPU set per local rank. Fails if a worker would have no device or no CPU.
Result<std::vector<CpuSet>> bind_workers(NumaBinding binding, const Topology& topology,
                                         int local_world_size);

struct WorkerBinding {
  std::vector<CpuSet> cpus;        // by local rank
  std::vector<std::string> notes;  // to print at the start
  friend bool operator==(const WorkerBinding&, const WorkerBinding&) = default;
};

// Evaluates --numa-binding for the detected topology; errors name the flag. `devices` is the number
// of GPUs that the workers see. Fails if there are GPUs but the topology lists none, since their
// location is then unknown.
Result<WorkerBinding> resolve_binding(NumaBinding binding, const Result<Topology>& topology,
                                      int devices, int local_world_size);

// "node", "socket", "exclusive", "core-complex"; nullopt for any other name.
std::optional<NumaBinding> numa_binding_named(std::string_view name);

// "local ranks 0-3 on 0-31, local ranks 4-7 on 32-63".
std::string to_text(const std::vector<CpuSet>& cpus_by_rank);

// Detects unusable GPUs. A GPU that has fallen off the bus, or that its driver has given up, is
// simply missing for the workers. With `--nproc-per-node=gpu` the job would silently be smaller
// than intended.

// Counts of NVIDIA GPUs from three sources; io/host.h fills them in.
struct GpuCounts {
  int on_bus = 0;     // display controllers on the PCI bus, without virtual functions
  int in_driver = 0;  // in /proc/driver/nvidia/gpus
  int usable = 0;     // of these, those whose device file this user can open
  friend bool operator==(const GpuCounts&, const GpuCounts&) = default;
};

// The number of GPUs present: the highest of the counts.
int gpus_there(const GpuCounts& counts);

// A message such as "7 of 8 GPUs can be used: …", with a hint. nullopt if all are usable, if there
// is no driver, or if this process was given a subset (by a container, Slurm or
// CUDA_VISIBLE_DEVICES).
std::optional<std::string> missing_gpus(const GpuCounts& counts, const Environment& environment);

// The variable that limits the GPUs of the workers, and its value (null: not set). That is
// HIP_VISIBLE_DEVICES unless it is empty or not set, otherwise CUDA_VISIBLE_DEVICES: ROCm reads
// both and prefers the first, and so does torchrun since 2.15.
struct VisibleDevices {
  std::string_view variable;
  const std::string* list = nullptr;
};
VisibleDevices visible_devices(const Environment& environment);

// The entries of such a list, without blanks.
std::vector<std::string> listed_devices(std::string_view list);

// How many GPUs a worker on this machine would see. CUDA is not used: loading it takes longer than
// all other work of cpprun. `device_files` are the names in /dev. CUDA_VISIBLE_DEVICES hides some
// of the devices there, but adds none.
int count_devices(const std::vector<std::string>& device_files, const Environment& environment);

}  // namespace cpprun
