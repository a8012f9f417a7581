// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/devices.h"

#include <doctest/doctest.h>

namespace gpus_test {

using namespace cpprun;

TEST_CASE("a machine whose GPUs can all be used causes no message") {
  CHECK_FALSE(missing_gpus({.on_bus = 8, .in_driver = 8, .usable = 8}, {}));
  CHECK_FALSE(missing_gpus({}, {}));
}

TEST_CASE("a GPU that the driver has lost is reported") {
  const auto sentence = missing_gpus({.on_bus = 8, .in_driver = 7, .usable = 7}, {});
  REQUIRE(sentence);
  CHECK(sentence->starts_with(
      "7 of 8 GPUs can be used: the PCI bus has 8, the driver has 7\n  hint: find the lost GPU"));
}

TEST_CASE("a GPU that this user may not open is reported") {
  const auto sentence = missing_gpus({.on_bus = 8, .in_driver = 8, .usable = 7}, {});
  REQUIRE(sentence);
  CHECK(sentence->starts_with(
      "7 of 8 GPUs can be used: the driver has 8, but 1 of their device files"));
}

TEST_CASE("a container that sees fewer GPUs on the bus than it has causes no message") {
  CHECK_FALSE(missing_gpus({.on_bus = 0, .in_driver = 8, .usable = 8}, {}));
}

TEST_CASE("a node with an assigned subset of the GPUs misses none") {
  const GpuCounts two_of_eight{.on_bus = 8, .in_driver = 2, .usable = 2};
  CHECK_FALSE(missing_gpus(two_of_eight, {{"NVIDIA_VISIBLE_DEVICES", "GPU-a,GPU-b"}}));
  CHECK_FALSE(missing_gpus(two_of_eight, {{"CUDA_VISIBLE_DEVICES", "0,1"}}));
  CHECK_FALSE(missing_gpus(two_of_eight, {{"SLURM_STEP_GPUS", "3,4"}}));
  CHECK(missing_gpus(two_of_eight, {{"NVIDIA_VISIBLE_DEVICES", "all"}}));
}

TEST_CASE("without a driver no GPU is missing") {
  CHECK_FALSE(missing_gpus({.on_bus = 8, .in_driver = 0, .usable = 0}, {}));
}

TEST_CASE("the number of GPUs is the largest of the counts") {
  CHECK(gpus_there({.on_bus = 8, .in_driver = 7, .usable = 6}) == 8);
  CHECK(gpus_there({.on_bus = 0, .in_driver = 2, .usable = 2}) == 2);
}

}  // namespace gpus_test
