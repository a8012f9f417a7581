// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the driver says about each GPU of this machine, and which GPU a worker uses. Pure:
// io/gpu_sampler.h asks the driver.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/link/message.h"
#include "proto/rank.h"

namespace cpprun {

struct GpuReading {
  link::GpuUse use;
  std::string uuid;  // "GPU-8f6d…"
  // MiB used by each process that computes on it, and by the descendants of each of its ancestors.
  // Only processes that are visible here: a container has its own pids.
  std::map<int, std::int64_t> mib_of_pid;
  friend bool operator==(const GpuReading&, const GpuReading&) = default;
};

// One line per GPU: index, percent, used and total MiB, UUID, "pid:MiB,pid:MiB".
std::string to_text(const std::vector<GpuReading>& readings);
// Skips lines that are not in this form.
std::vector<GpuReading> gpu_readings_of(std::string_view text);

// The GPU on which the worker and its descendants use most memory. If there is none, in a container
// that does not see the pids, the GPU that the worker is expected to use: its local rank counts the
// devices of CUDA_VISIBLE_DEVICES (`visible`; nullopt: all), or the variable lists a single one. A
// GPU is in use if some of its memory is, and its user is unknown if it has no visible process.
// nullopt: none, or unknown, as with a part of a GPU (MIG).
std::optional<link::GpuUse> gpu_of_worker(const std::vector<GpuReading>& readings, int pid,
                                          const std::optional<std::string>& visible,
                                          LocalRank local_rank);

}  // namespace cpprun
