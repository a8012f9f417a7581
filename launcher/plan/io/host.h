// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What this machine is: its name, its processors and devices, its network interfaces, what lies on
// its disk. Nothing here asks a name server or waits.

#include <sys/resource.h>

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/cpu_binding.h"
#include "launcher/plan/gpus.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/program.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun::io {

std::string host_name();  // as the kernel knows it; no name server is asked
int cpu_count();  // logical processors that this process may run on (taskset, cpuset), as torchrun
// Devices the workers may use: /dev/nvidia<n>, or what CUDA_VISIBLE_DEVICES leaves of them.
int device_count(const Environment& environment);

// `bytes` random bytes from the kernel, in hexadecimal.
std::string random_token(int bytes);

Result<std::vector<NetworkInterface>> network_interfaces();

// The local address from which `address` (literal) is reached, found without sending anything.
Result<std::string> local_address_towards(const std::string& address, int port);

// Of the program that runs: as it was called, and as links lead to it.
std::vector<std::string> own_paths();

FileKind probe_file(const std::string& path);
// All of it, as long as it has no more bytes than that.
Result<std::string> read_text_file(const std::string& path, std::size_t bytes_max);

// Lets this process open as many files as the administrator allows; gives the limit before.
std::optional<rlimit> raise_open_files();

// Which processors, caches, sockets and NUMA nodes this machine has, and near which of them its
// GPUs are, as the kernel and NVIDIA's driver show it in /sys and /proc.

// Devices are numbered as CUDA numbers devices of one kind: by their place on the bus, then by
// CUDA_VISIBLE_DEVICES. Fails if that variable names something that cannot be located. `root` is
// put in front of every path; `allowed` are the processors that count.
Result<Topology> read_topology(const Environment& environment, const CpuSet& allowed,
                               const std::string& root = "");

// The processors on which this process itself may run.
CpuSet own_cpus();

// How many GPUs there are, by the kernel's files. No library of NVIDIA's is loaded: that takes
// longer than everything else cpprun does.

// `root`: where proc, sys and dev are, for tests.
GpuCounts count_gpus(const std::string& root = {});

}  // namespace cpprun::io
