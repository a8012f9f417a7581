// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/gpu_sampler.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "launcher/workers/io/process_tree.h"

namespace cpprun::io {

namespace {

constexpr std::chrono::seconds pause_between_samples{5};
constexpr std::chrono::seconds reading_age_max{20};
// A driver of eight GPUs takes some seconds to start.
constexpr std::chrono::seconds answer_timeout{10};
constexpr int timeouts_max = 3;  // a process that hangs in the driver may stay

#ifndef CPPRUN_STATIC

using NvmlDevice = void*;
struct NvmlUtilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};
struct NvmlMemory {  // bytes
  unsigned long long total = 0;
  unsigned long long available = 0;
  unsigned long long used = 0;
};
struct NvmlProcess {
  unsigned pid = 0;
  unsigned long long used_bytes = 0;
};

// Each returns 0 for success.
struct Nvml {
  int (*init)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, NvmlDevice*) = nullptr;
  int (*uuid)(NvmlDevice, char*, unsigned) = nullptr;
  int (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*processes)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;
};

std::optional<Nvml> open_nvml() {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Nvml nvml;
  bool is_whole = true;
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    is_whole = is_whole && function != nullptr;
  };
  find(nvml.init, "nvmlInit_v2");
  find(nvml.count, "nvmlDeviceGetCount_v2");
  find(nvml.device, "nvmlDeviceGetHandleByIndex_v2");
  find(nvml.uuid, "nvmlDeviceGetUUID");
  find(nvml.utilization, "nvmlDeviceGetUtilizationRates");
  find(nvml.memory, "nvmlDeviceGetMemoryInfo");
  find(nvml.processes, "nvmlDeviceGetComputeRunningProcesses");
  if (!is_whole || nvml.init() != 0) return std::nullopt;
  return nvml;
}

std::int64_t mib_of(unsigned long long bytes) {
  return static_cast<std::int64_t>(bytes >> 20);
}

// To the process and its ancestors, if it is visible here.
void add_process(GpuReading& reading, const NvmlProcess& process) {
  const auto pid = static_cast<int>(process.pid);
  if (!read_stat(pid)) return;
  const bool is_known = process.used_bytes != ~0ULL;
  for (const int each : line_of(pid)) {
    reading.mib_of_pid[each] += is_known ? mib_of(process.used_bytes) : 0;
  }
}

std::optional<GpuReading> read_gpu(const Nvml& nvml, unsigned index) {
  NvmlDevice device = nullptr;
  std::array<char, 96> uuid{};
  if (nvml.device(index, &device) != 0 ||
      nvml.uuid(device, uuid.data(), static_cast<unsigned>(uuid.size() - 1)) != 0) {
    return std::nullopt;
  }
  GpuReading reading{
      .use = {.index = static_cast<int>(index)}, .uuid = uuid.data(), .mib_of_pid = {}};
  NvmlMemory memory;  // a GPU that uses the memory of the machine has none
  if (nvml.memory(device, &memory) == 0) {
    reading.use.used_mib = mib_of(memory.used);
    reading.use.total_mib = mib_of(memory.total);
  }
  NvmlUtilization utilization;  // a GPU in MIG mode has none
  if (nvml.utilization(device, &utilization) == 0) {
    reading.use.percent = static_cast<int>(std::min(utilization.gpu, 100U));
  }
  std::array<NvmlProcess, 256> processes{};
  auto count = static_cast<unsigned>(processes.size());
  if (nvml.processes(device, &count, processes.data()) == 0) {
    for (std::size_t i = 0; i < std::min<std::size_t>(count, processes.size()); ++i) {
      add_process(reading, processes[i]);
    }
  }
  return reading;
}

#endif

}  // namespace

std::vector<GpuReading> read_nvml() {
  std::vector<GpuReading> readings;
#ifndef CPPRUN_STATIC
  unsigned count = 0;
  const auto nvml = open_nvml();
  if (!nvml || nvml->count(&count) != 0) return readings;
  for (unsigned index = 0; index < count; ++index) {
    if (auto reading = read_gpu(*nvml, index)) readings.push_back(*std::move(reading));
  }
#endif
  return readings;
}

GpuSampler::GpuSampler(asio::io_context& context, HelperProcesses& side)
    : task_(context, side, answer_timeout, /*only_in_helper=*/true) {}

void GpuSampler::sample(TimePoint now) {
  if (is_asking_ || has_none_ || timeouts_ == timeouts_max || now < next_) return;
  is_asking_ = true;
  task_.ask([] { return to_text(read_nvml()); },
            [this, now](const std::optional<std::string>& answer) {
              is_asking_ = false;
              read_ = now;
              readings_ = gpu_readings_of(answer.value_or(""));
              has_none_ = answer && readings_.empty();
              timeouts_ = answer ? 0 : timeouts_ + 1;
              next_ = now + pause_between_samples * (1 + 10 * timeouts_);
            });
}

const std::vector<GpuReading>& GpuSampler::readings(TimePoint now) const {
  static const std::vector<GpuReading> none;
  return now - read_ <= reading_age_max ? readings_ : none;
}

}  // namespace cpprun::io
