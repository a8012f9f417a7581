// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How many GPUs a worker would see, and whether all of this machine can be used.

#include <optional>
#include <string>
#include <vector>

#include "proto/environment.h"

namespace cpprun {

// Whether all GPUs of this machine can be used. One that has fallen off the bus, or whose driver
// has given it up, is simply not there for the workers: with `--nproc-per-node=gpu` the job is
// smaller than its neighbours think, and nobody says so.

// Of NVIDIA's, counted in three places; io/gpus looks there.
struct GpuCounts {
  int on_bus = 0;     // display controllers in the list of PCI, without virtual functions
  int in_driver = 0;  // in /proc/driver/nvidia/gpus
  int usable = 0;     // of these, those whose device file this user may open
  friend bool operator==(const GpuCounts&, const GpuCounts&) = default;
};

// How many there should be: the most that was seen anywhere.
int gpus_there(const GpuCounts& counts);

// Why some of them cannot be used, as "7 of 8 GPUs can be used: …" with what helps; nothing where
// all can be, where there is no driver at all, and where somebody has given this process only some
// of them (a container, Slurm, CUDA_VISIBLE_DEVICES).
std::optional<std::string> missing_gpus(const GpuCounts& counts, const Environment& environment);

// How many GPUs a worker of this machine would see. CUDA itself is not asked: loading it takes
// longer than everything else cpprun does.
// `device_files` are the names in /dev. CUDA_VISIBLE_DEVICES hides some of the devices there, but
// adds none.
int count_devices(const std::vector<std::string>& device_files, const Environment& environment);

}  // namespace cpprun
