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
// there is none, it never asks again; if the driver does not answer in time, it asks a few times
// more, ever later.
class GpuSampler {
 public:
  // Both must outlive this object.
  GpuSampler(asio::io_context& context, HelperProcesses& side);

  void sample(TimePoint now);
  // Those of the last sample; empty before the first, and if it is too old.
  const std::vector<GpuReading>& readings(TimePoint now) const;

 private:
  AsyncTask task_;
  std::vector<GpuReading> readings_;
  TimePoint read_{};  // when the last sample was requested
  TimePoint next_{};
  int timeouts_ = 0;  // in a row
  bool is_asking_ = false;
  bool has_none_ = false;
};

}  // namespace cpprun::io
