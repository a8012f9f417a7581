// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads facts about this machine: its CPUs, devices, network interfaces and files. Only the
// last section uses a name server or blocks on the network.

#include <sys/resource.h>
#include <asio/io_context.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/devices.h"
#include "launcher/plan/host_facts.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/program.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun::io {

int cpu_count();  // logical CPUs this process may use (taskset, cpuset), as in torchrun
// Devices that workers may use: /dev/nvidia<n>, limited by CUDA_VISIBLE_DEVICES.
int device_count(const Environment& environment);

// This machine's offset of local time now, in seconds east of UTC.
int utc_offset_seconds();

// `bytes` random bytes from the kernel, in hexadecimal.
std::string random_token(int bytes);

Result<std::vector<NetworkInterface>> network_interfaces();

// The local address from which `address` (a literal) is reached. Sends nothing.
Result<std::string> local_address_towards(const std::string& address, int port);

// The target of a symbolic link; empty if there is none.
std::string link_target(const std::string& path);

// Paths of the running program: as it was invoked, and with symbolic links resolved.
std::vector<std::string> own_paths();

FileKind probe_file(const std::string& path);
// The whole file; an error if it is longer than `bytes_max`.
Result<std::string> read_text_file(const std::string& path, std::size_t bytes_max);

// Raises the limit of open files to the hard limit. Returns the previous limits.
std::optional<rlimit> raise_open_files();

// Reads which CPUs, caches, sockets and NUMA nodes this machine has, and which of them its GPUs are
// near, from the kernel's and NVIDIA's files in /sys and /proc.

// Devices are numbered as CUDA numbers devices of one model: in bus order, then filtered by
// CUDA_VISIBLE_DEVICES. Fails if that variable names a device that cannot be found. `root` is
// prepended to every path. CPUs outside `allowed` are ignored.
Result<Topology> read_topology(const Environment& environment, const CpuSet& allowed,
                               const std::string& root = "");

// The CPUs on which this process may run.
CpuSet own_cpus();

// Counts GPUs by the kernel's files. NVIDIA's libraries are not loaded: that takes longer than all
// other work of cpprun.

// `root` is prepended to /proc, /sys and /dev; for tests.
GpuCounts count_gpus(const std::string& root = {});

// A file system. Blocks if it hangs. Its size is 0 if it cannot be read.
Disk examine_disk(const std::string& path);

// The facts about this machine that --dry-run and `cpprunctl doctor` show. Blocks on its disks, but
// not on other hosts. Excludes the versions of programs, and what an examination adds.
HostFacts collect_host_facts(const Environment& environment);

// Resolving host names. The launcher resolves names only here, only at the start, and only on a
// node that may host the coordinator. meeting_place.h decides what the addresses mean.

// The address in canonical form if `host` is a literal address; otherwise nullopt.
std::optional<std::string> literal_address(const std::string& host);

// The literal addresses of a host: itself if it is a literal, otherwise what its name resolves to.
// Empty if it does not resolve.
std::vector<std::string> addresses_of(const std::string& host);

// The asynchronous form: `found` is called from the event loop, never from inside this call, with
// at least one address or an error.
void look_up(asio::io_context& context, const std::string& host,
             std::function<void(const Result<std::vector<std::string>>&)> found);

}  // namespace cpprun::io
