// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which processors, caches, sockets and NUMA nodes this machine has, and near which of them its
// GPUs are, as the kernel and NVIDIA's driver show it in /sys and /proc.

#include <string>

#include "launcher/plan/numa.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun::io {

// Devices are numbered as CUDA numbers devices of one kind: by their place on the bus, then by
// CUDA_VISIBLE_DEVICES. Fails if that variable names something that cannot be located. `root` is
// put in front of every path; `allowed` are the processors that count.
Result<Topology> read_topology(const Environment& environment, const CpuSet& allowed,
                               const std::string& root = "");

// The processors on which this process itself may run.
CpuSet own_cpus();

}  // namespace cpprun::io
