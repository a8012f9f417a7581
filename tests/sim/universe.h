// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What every part of a simulated world needs: the time, the scenario, the trace, the judge.

#include "tests/sim/judge.h"
#include "tests/sim/scenario.h"
#include "tests/sim/timeline.h"
#include "tests/sim/trace.h"

namespace cpprun::sim {

struct Universe {
  explicit Universe(Scenario of, bool traced)
      : scenario(std::move(of)), trace(traced), judge(scenario, time) {}

  Scenario scenario;
  Timeline time;
  Trace trace;
  Judge judge;
};

}  // namespace cpprun::sim
