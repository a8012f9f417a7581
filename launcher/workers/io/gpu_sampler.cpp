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

namespace cpprun::io {

namespace {

constexpr std::chrono::seconds pause_between_samples{5};
constexpr std::chrono::seconds answer_timeout{4};  // a driver that starts up takes a second or two

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

std::optional<GpuReading> read_gpu(const Nvml& nvml, unsigned index) {
  NvmlDevice device = nullptr;
  std::array<char, 96> uuid{};
  NvmlMemory memory;
  if (nvml.device(index, &device) != 0 || nvml.memory(device, &memory) != 0 ||
      nvml.uuid(device, uuid.data(), static_cast<unsigned>(uuid.size() - 1)) != 0) {
    return std::nullopt;
  }
  GpuReading reading{.use = {.index = static_cast<int>(index),
                             .used_mib = static_cast<std::int64_t>(memory.used >> 20),
                             .total_mib = static_cast<std::int64_t>(memory.total >> 20)},
                     .uuid = uuid.data()};
  NvmlUtilization utilization;  // a GPU in MIG mode has none
  if (nvml.utilization(device, &utilization) == 0) {
    reading.use.percent = static_cast<int>(std::min(utilization.gpu, 100U));
  }
  std::array<NvmlProcess, 256> processes{};
  auto count = static_cast<unsigned>(processes.size());
  if (nvml.processes(device, &count, processes.data()) == 0) {
    for (std::size_t i = 0; i < std::min<std::size_t>(count, processes.size()); ++i) {
      reading.pids.push_back(static_cast<int>(processes[i].pid));
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
    : task_(context, side, answer_timeout) {}

void GpuSampler::sample(TimePoint now) {
  if (is_asking_ || given_up_ || now < next_) return;
  is_asking_ = true;
  next_ = now + pause_between_samples;
  task_.ask([] { return to_text(read_nvml()); },
            [this](const std::optional<std::string>& answer) {
              is_asking_ = false;
              readings_ = gpu_readings_of(answer.value_or(""));
              given_up_ = readings_.empty();
            });
}

}  // namespace cpprun::io
