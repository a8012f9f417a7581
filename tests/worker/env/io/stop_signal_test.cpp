// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/worker.h"

#include <doctest/doctest.h>
#include <signal.h>

#include "tests/worker/child.h"

using namespace cpprun;

TEST_CASE("SIGTERM sets a flag instead of ending the process") {
  const StopSignal stop;
  CHECK_FALSE(stop.requested());
  REQUIRE(::raise(SIGTERM) == 0);
  CHECK(stop.requested());
}

TEST_CASE("SIGTERM ends the process again once the listener is gone") {
  const testing::Ended ended = testing::run_in_child([] {
    { const StopSignal stop; }
    return ::raise(SIGTERM);
  });
  CHECK(ended.signal == SIGTERM);
}
