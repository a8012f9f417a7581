// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What every part of a simulated world needs: the time, the scenario, the trace, the judge.

#include "tests/sim/judge.h"
#include "tests/sim/scenario.h"
#include "tests/sim/store_judge.h"
#include "tests/sim/timeline.h"
#include "tests/sim/trace.h"

namespace cpprun::sim {

struct Universe {
  explicit Universe(Scenario of, bool traced)
      : scenario(std::move(of)), trace(traced), judge(scenario, time) {}

  // Whether the machines are asked for their invariants after each step: not in a crowd, where
  // every step would look at thousands of members.
  bool looks_inside() const { return looks_inside_; }

  Scenario scenario;
  Timeline time;
  Trace trace;
  Judge judge;
  StoreJudge stores;
  LinkId last_link{};  // of all coordinators: they are told apart by it

 private:
  bool looks_inside_ = scenario.nodes() <= 64;
};

}  // namespace cpprun::sim
