// SPDX-License-Identifier: BSD-3-Clause
// NVML of a machine with two GPUs, the second in MIG mode.

#include <cstdio>

namespace {

constexpr int not_supported = 3;
char devices[2];

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  std::snprintf(text, length, "GPU-%d", device == devices ? 0 : 1);
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* gpu_and_memory) {
  if (device != devices) return not_supported;
  gpu_and_memory[0] = 37;
  gpu_and_memory[1] = 5;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* total_free_used) {
  total_free_used[0] = 80ULL << 30;
  total_free_used[1] = 79ULL << 30;
  total_free_used[2] = 1ULL << 30;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return 0;
}
}
