// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Plays many seeds one after another and reports those that broke a promise: the promise, the
// faults that are needed, and a trace that is as short as possible.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/scenario.h"

namespace cpprun::sim {

struct Campaign {
  std::uint64_t first = 1;
  std::uint64_t seeds = 1000;
  std::uint64_t stride = 1;  // with several processes, each takes every n-th seed
  int agents_max = 6;
  FaultKinds kinds;
  std::string kinds_text = "all";
  std::optional<std::vector<int>> keep;  // only these of each run's faults, by index
  bool goes_on = false;                  // after a run that breaks a promise
  // Called before each seed; false: stop.
  std::function<bool(std::uint64_t seed)> may_play = {};
};

struct Broken {
  std::uint64_t seed = 0;
  std::string verdict;
};

struct Tally {
  std::uint64_t runs = 0;
  std::uint64_t steps = 0;
  Duration simulated{};
  std::vector<Broken> broken;  // by seed
};

Tally sail(const Campaign& campaign);

// The scenario of one seed of that campaign.
Scenario scenario_of(const Campaign& campaign, std::uint64_t seed);

// The indices of the faults that are needed to break the same promise: leaving out any other
// changes nothing, leaving out one of these does.
std::vector<int> faults_needed(const Scenario& scenario);

// The promise without its details: which node, and when.
std::string promise_of(std::string verdict);

// The runs that broke one promise.
struct Group {
  std::string promise;
  std::vector<std::uint64_t> seeds;
};
// The most frequent one first.
std::vector<Group> grouped(const std::vector<Broken>& broken);

// The seed among these, or among the first few of many, that needs the fewest faults, then the
// fewest steps.
std::uint64_t shortest_of(const Campaign& campaign, const std::vector<std::uint64_t>& seeds);

// The seed, the promise, the needed faults, the command to play it again, and the last lines of the
// trace.
std::string report_of(const Campaign& campaign, std::uint64_t seed, std::size_t lines_max = 80);

// The shortest case of every broken promise, with its count.
std::string report_of(const Campaign& campaign, const std::vector<Broken>& broken,
                      std::size_t lines_max = 80);

}  // namespace cpprun::sim
