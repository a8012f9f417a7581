// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_world.h"

#include <doctest/doctest.h>

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("polling does not pause while an operation may complete soon") {
  CHECK(pause_between_looks(0us, 0) == 0us);
  CHECK(pause_between_looks(4ms, 4) == 0us);
  // 100 MB may take a second.
  CHECK(pause_between_looks(900ms, 100'000'000) == 0us);
  CHECK(pause_between_looks(1100ms, 100'000'000) > 0us);
}

TEST_CASE("the pause grows with the wait for a peer, up to a limit") {
  CHECK(pause_between_looks(6ms, 4) == 120us);
  CHECK(pause_between_looks(25ms, 4) == 500us);
  CHECK(pause_between_looks(10s, 4) == 1ms);
}
