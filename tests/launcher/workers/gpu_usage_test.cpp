// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/gpu_usage.h"

#include <doctest/doctest.h>

namespace gpu_usage_test {

using namespace cpprun;

namespace {

std::vector<GpuReading> three_gpus() {
  return {{.use = {0, 10, 1, 80}, .uuid = "GPU-aa11", .pids = {7, 8}},
          {.use = {1, -1, 2, 80}, .uuid = "GPU-bb22"},
          {.use = {2, 30, 3, 80}, .uuid = "GPU-cc33", .pids = {9}}};
}

// The index of the GPU of a worker without processes on any; -1: none.
int expected(int local_rank, const std::optional<std::string>& visible) {
  const auto use = gpu_of_worker(three_gpus(), {4711}, visible, LocalRank{local_rank});
  return use ? use->index : -1;
}

}  // namespace

TEST_CASE("readings survive as text, and other lines are left out") {
  CHECK(gpu_readings_of(to_text(three_gpus())) == three_gpus());
  CHECK(gpu_readings_of("").empty());
  CHECK(gpu_readings_of("0 1 2\nx 1 2 3 GPU-a 4\n\n0 1 2 3 GPU-a\n").empty());
  CHECK(gpu_readings_of("0 1 2 3 GPU-a \n").front().pids.empty());
}

TEST_CASE("the GPU on which a process of the worker computes is its own, whatever is visible") {
  CHECK(gpu_of_worker(three_gpus(), {4, 9}, "0", LocalRank{0})->index == 2);
  CHECK(gpu_of_worker(three_gpus(), {8}, std::nullopt, LocalRank{1})->index == 0);
}

TEST_CASE("before it computes, a worker's local rank counts the visible devices") {
  CHECK(expected(1, std::nullopt) == 1);
  CHECK(expected(3, std::nullopt) == -1);
  CHECK(expected(0, "2,1") == 2);
  CHECK(expected(1, " 2, 1") == 1);
  CHECK(expected(2, "2,1") == -1);
  CHECK(expected(5, "2") == 2);  // one for this worker alone
  CHECK(expected(1, "GPU-aa11,GPU-cc") == 2);
  CHECK(expected(0, "MIG-aa11") == -1);
  CHECK(expected(0, "") == -1);
  CHECK_FALSE(gpu_of_worker({}, {7}, std::nullopt, LocalRank{0}));
}

}  // namespace gpu_usage_test
