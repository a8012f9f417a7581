// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Many seeds, one after the other, and what to say of those that broke a promise: which promise,
// the faults that it takes, and what happened, as short as it can be.

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
  std::uint64_t stride = 1;  // with several processes each takes every n-th seed
  int agents_max = 6;
  FaultKinds kinds;
  std::string kinds_text = "all";
  std::optional<std::vector<int>> keep;  // only these of each run's faults, by index
  bool goes_on = false;                  // after a run that breaks a promise
  // Told each seed before it is played; false: it is enough.
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

// Which of the faults it takes to break the same promise, by index: leaving out any other changes
// nothing, leaving out one of these does.
std::vector<int> faults_needed(const Scenario& scenario);

// Which promise that is, whoever it was broken to and when.
std::string promise_of(std::string verdict);

// Those that broke one promise.
struct Group {
  std::string promise;
  std::vector<std::uint64_t> seeds;
};
// The promise that was broken most often first.
std::vector<Group> grouped(const std::vector<Broken>& broken);

// Of these seeds, or the first few of many, the one that takes the fewest faults, and of those the
// fewest steps.
std::uint64_t shortest_of(const Campaign& campaign, const std::vector<std::uint64_t>& seeds);

// The seed, the promise, the faults needed, how to play it again, and the last lines of what
// happened.
std::string report_of(const Campaign& campaign, std::uint64_t seed, std::size_t lines_max = 80);

// One shortest case of every promise that was broken, and how often it was.
std::string report_of(const Campaign& campaign, const std::vector<Broken>& broken,
                      std::size_t lines_max = 80);

}  // namespace cpprun::sim
