// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How many GPUs a worker would see, and whether all GPUs of this machine are usable.

#include <optional>
#include <string>
#include <vector>

#include "proto/environment.h"

namespace cpprun {

// Detects unusable GPUs. A GPU that has fallen off the bus, or that its driver has given up, is
// simply missing for the workers. With `--nproc-per-node=gpu` the job would silently be smaller
// than intended.

// Counts of NVIDIA GPUs from three sources; io/gpus fills them in.
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

// How many GPUs a worker on this machine would see. CUDA is not used: loading it takes longer than
// all other work of cpprun. `device_files` are the names in /dev. CUDA_VISIBLE_DEVICES hides some
// of the devices there, but adds none.
int count_devices(const std::vector<std::string>& device_files, const Environment& environment);

}  // namespace cpprun
