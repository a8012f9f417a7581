// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/gpu_usage.h"

#include <doctest/doctest.h>

namespace gpu_usage_test {

using namespace cpprun;

namespace {

constexpr std::int64_t in_use = 1024;  // MiB

// Two with visible processes, and one whose processes belong to another container.
std::vector<GpuReading> three_gpus() {
  return {{.use = {0, 10, in_use, 80'000}, .uuid = "GPU-aa11", .mib_of_pid = {{7, 300}, {8, 500}}},
          {.use = {1, -1, in_use, 80'000}, .uuid = "GPU-bb22", .mib_of_pid = {}},
          {.use = {2, 30, in_use, 80'000}, .uuid = "GPU-cc33", .mib_of_pid = {{8, 9000}, {9, 0}}}};
}

int index_of(const std::optional<link::GpuUse>& use) {
  return use ? use->index : -1;
}

// The GPU of a worker without a visible process, where all three are used by other containers.
int expected(int local_rank, const std::optional<std::string>& visible) {
  auto gpus = three_gpus();
  for (GpuReading& each : gpus) each.mib_of_pid.clear();
  return index_of(gpu_of_worker(gpus, 4711, visible, LocalRank{local_rank}));
}

}  // namespace

TEST_CASE("valid readings are parsed, and other lines are skipped") {
  CHECK(gpu_readings_of(to_text(three_gpus())) == three_gpus());
  CHECK(gpu_readings_of("").empty());
  CHECK(gpu_readings_of("0 1 2\nx 1 2 3 GPU-a 4:1,\n\n0 1 2 3 GPU-a\n").empty());
  CHECK(gpu_readings_of("0 1 2 3 GPU-a 4,:,5:,6:x,7:8:9\n").front().mib_of_pid.empty());
}

TEST_CASE("a worker's GPU is the one on which it uses the most memory") {
  CHECK(index_of(gpu_of_worker(three_gpus(), 9, "0", LocalRank{0})) == 2);
  CHECK(index_of(gpu_of_worker(three_gpus(), 7, std::nullopt, LocalRank{1})) == 0);
  CHECK(index_of(gpu_of_worker(three_gpus(), 8, std::nullopt, LocalRank{0})) == 2);
}

TEST_CASE("a worker without a visible process has the GPU of its local rank, if that is in use") {
  CHECK(expected(1, std::nullopt) == 1);
  CHECK(expected(3, std::nullopt) == -1);
  CHECK(expected(0, "2,1") == 2);
  CHECK(expected(1, " 2, 1") == 1);
  CHECK(expected(2, "2,1") == -1);
  CHECK(expected(5, "2") == 2);  // one for this worker only
  CHECK(expected(1, "GPU-aa11,GPU-cc") == 2);
  for (const char* const none : {"", "-1", "NoDevFiles", "MIG-aa11"})
    CHECK(expected(0, none) == -1);
  CHECK(expected(2, "0,-1,1") == -1);
  CHECK_FALSE(gpu_of_worker({}, 7, std::nullopt, LocalRank{0}));
  // Used by visible processes of others, or by no process.
  CHECK_FALSE(gpu_of_worker(three_gpus(), 4711, std::nullopt, LocalRank{0}));
  const std::vector<GpuReading> idle = {
      {.use = {0, 0, 3, 80'000}, .uuid = "GPU-aa11", .mib_of_pid = {}}};
  CHECK_FALSE(gpu_of_worker(idle, 4711, std::nullopt, LocalRank{0}));
}

}  // namespace gpu_usage_test
