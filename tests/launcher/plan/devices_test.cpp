// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/devices.h"

#include <doctest/doctest.h>

namespace devices_test {

using namespace cpprun;

namespace {

const std::vector<std::string> four = {"null",    "nvidia0",   "nvidia1",   "nvidia2",
                                       "nvidia3", "nvidiactl", "nvidia-uvm"};

int visible(const std::string& list) {
  return count_devices(four, {{"CUDA_VISIBLE_DEVICES", list}});
}

}  // namespace

TEST_CASE("devices are counted by their files, without the driver's other files") {
  CHECK(count_devices(four, {}) == 4);
  CHECK(count_devices({"null", "nvidiactl"}, {}) == 0);
}

TEST_CASE("CUDA_VISIBLE_DEVICES is read as CUDA reads it, up to the first invalid entry") {
  CHECK(visible("0,1") == 2);
  CHECK(visible(" 3 , 2 ") == 2);
  CHECK(visible("GPU-8f3a,MIG-1") == 2);
  CHECK(visible("") == 0);
  CHECK(visible("-1") == 0);
  CHECK(visible("0,-1,1") == 1);
  CHECK(visible("0,4,1") == 1);
  CHECK(visible("NoDevFiles") == 0);
}

TEST_CASE("a variable does not add devices that do not exist") {
  CHECK(count_devices({"null"}, {{"CUDA_VISIBLE_DEVICES", "0,GPU-8f3a"}}) == 0);
}

}  // namespace devices_test
