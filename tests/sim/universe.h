// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What every part of a simulated world needs: the time, the scenario, the trace, the judge.

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

  // By which a job's rounds are known from those of another one of that name.
  int port_of(int job, bool begins) {
    constexpr int lives_max = 100;
    return 30000 + lives_max * job + (begins ? ++job_lives[job] : job_lives[job]);
  }

  // Whether the machines are asked for their invariants after each step: not in a crowd, where
  // every step would look at thousands of members.
  bool looks_inside() const { return looks_inside_; }

  Scenario scenario;
  Timeline time;
  Trace trace;
  Judge judge;
  StoreJudge stores;
  LinkId last_link{};  // of all coordinators: they are told apart by it
  // --- of several cpprunds ---
  LinkId last_link_before{};       // of nodes that another one has had
  std::uint64_t epoch = 0;         // the greatest in which somebody has led
  std::uint64_t spoken_epoch = 0;  // and has said something
  // By job, the number of the round, and the epoch of who has decided it.
  std::map<std::tuple<int, std::uint32_t, std::uint64_t>, Judge::Seats> decided_seats = {};
  std::map<int, int> job_lives = {};  // how often a job of that name has begun

 private:
  bool looks_inside_ = scenario.nodes() <= 64;
};

}  // namespace cpprun::sim
