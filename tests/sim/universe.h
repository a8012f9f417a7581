// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Shared by all parts of a simulated world: the time, the scenario, the trace, the judge.

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "tests/sim/judge.h"
#include "tests/sim/scenario.h"
#include "tests/sim/store_judge.h"
#include "tests/sim/timeline.h"
#include "tests/sim/trace.h"

namespace cpprun::sim {

struct Universe {
  explicit Universe(Scenario of, bool traced)
      : scenario(std::move(of)), trace(traced), judge(scenario, time) {
    if (scenario.set) last_link = LinkId{std::uint64_t{1} << 32};
  }

  // The port distinguishes the rounds of a job from those of another job of that name.
  int port_of(int job, bool begins) {
    constexpr int lives_max = 100;
    return 30000 + lives_max * job + (begins ? ++job_lives[job] : job_lives[job]);
  }

  // Whether the invariants of the machines are checked after each step: not with many nodes,
  // because every step would check thousands of members.
  bool looks_inside() const { return looks_inside_; }

  Scenario scenario;
  Timeline time;
  Trace trace;
  Judge judge;
  StoreJudge stores;
  LinkId last_link{};  // of all coordinators, which identifies links uniquely
  std::map<int, TimePoint> frozen_until = {};  // by job
  // --- several cpprunds ---
  LinkId last_link_before{};       // of nodes of a previous leader
  std::uint64_t epoch = 0;         // the latest epoch with a leader
  std::uint64_t spoken_epoch = 0;  // the latest epoch in which a leader has sent something
  // By job, round number, and the epoch of the decision.
  std::map<std::tuple<int, std::uint32_t, std::uint64_t>, Judge::Seats> decided_seats = {};
  std::map<int, int> job_lives = {};  // number of jobs of that name

 private:
  bool looks_inside_ = scenario.nodes() <= 64;
};

}  // namespace cpprun::sim
