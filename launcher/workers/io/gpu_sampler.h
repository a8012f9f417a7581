// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The use of NVIDIA's GPUs, by NVML: nvidia-ml's functions have had these names and arguments since
// driver 418 (https://docs.nvidia.com/deploy/nvml-api).

#include <asio/io_context.hpp>

#include <vector>

#include "launcher/io/disk_helper.h"
#include "launcher/workers/gpu_usage.h"
#include "proto/clock.h"
#include "rendezvous/io/helper_processes.h"

namespace cpprun::io {

// Loads NVML and reads all GPUs. Empty: there is no NVML, no GPU, or the program is static. May
// take as long as the driver does, which may be forever.
std::vector<GpuReading> read_nvml();

// Reads the GPUs in a helper process, at most every few seconds, and only if `sample` is called. If
// there is none, or the driver does not answer, it never asks again.
class GpuSampler {
 public:
  // Both must outlive this object.
  GpuSampler(asio::io_context& context, HelperProcesses& side);

  void sample(TimePoint now);
  // Those of the last sample; empty before the first.
  const std::vector<GpuReading>& readings() const { return readings_; }

 private:
  AsyncTask task_;
  std::vector<GpuReading> readings_;
  TimePoint next_{};
  bool is_asking_ = false;
  bool given_up_ = false;
};

}  // namespace cpprun::io
