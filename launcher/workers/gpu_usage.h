// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the driver says about each GPU of this machine, and which GPU a worker uses. Pure:
// io/gpu_sampler.h asks the driver.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/link/message.h"
#include "proto/rank.h"

namespace cpprun {

inline constexpr std::string_view visible_gpus_variable = "CUDA_VISIBLE_DEVICES";

struct GpuReading {
  link::GpuUse use;
  std::string uuid;       // "GPU-8f6d…"
  std::vector<int> pids;  // processes that compute on it; a container may not see them
  friend bool operator==(const GpuReading&, const GpuReading&) = default;
};

// One line per GPU: index, percent, used and total MiB, UUID, pids.
std::string to_text(const std::vector<GpuReading>& readings);
// Skips lines that are not in this form.
std::vector<GpuReading> gpu_readings_of(std::string_view text);

// The GPU on which one of the worker's processes computes. If there is none yet, the GPU that the
// worker is expected to use: its local rank counts the devices of CUDA_VISIBLE_DEVICES (`visible`;
// nullopt: all), or the variable lists a single one. nullopt: none, or unknown, as with MIG.
std::optional<link::GpuUse> gpu_of_worker(const std::vector<GpuReading>& readings,
                                          const std::vector<int>& pids,
                                          const std::optional<std::string>& visible,
                                          LocalRank local_rank);

}  // namespace cpprun
