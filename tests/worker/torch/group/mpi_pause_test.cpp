// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_world.h"

#include <doctest/doctest.h>

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("what may be on its way is looked for without a rest") {
  CHECK(pause_between_looks(0us, 0) == 0us);
  CHECK(pause_between_looks(4ms, 4) == 0us);
  // 100 MB may take a second.
  CHECK(pause_between_looks(900ms, 100'000'000) == 0us);
  CHECK(pause_between_looks(1100ms, 100'000'000) > 0us);
}

TEST_CASE("a rest grows with the wait for a peer, up to a bound") {
  CHECK(pause_between_looks(6ms, 4) == 120us);
  CHECK(pause_between_looks(25ms, 4) == 500us);
  CHECK(pause_between_looks(10s, 4) == 1ms);
}
