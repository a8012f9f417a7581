// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/devices.h"

#include <doctest/doctest.h>

namespace cpu_list_test {

using namespace cpprun;

TEST_CASE("the kernel's lists of processors are parsed and written") {
  CHECK(parse_cpu_list("0-2,4,6-7\n") == CpuSet{0, 1, 2, 4, 6, 7});
  CHECK(parse_cpu_list("3") == CpuSet{3});
  CHECK(parse_cpu_list("").empty());
  CHECK(to_cpu_list({0, 1, 2, 4, 6, 7}) == "0-2,4,6-7");
  CHECK(to_cpu_list({}).empty());
}

TEST_CASE("invalid entries are skipped, and a huge range uses no memory") {
  CHECK(parse_cpu_list("a,1,-,2-x,0-999999999") == CpuSet{1});
}

}  // namespace cpu_list_test
