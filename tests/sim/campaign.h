#pragma once
// Many seeds, one after the other, and what to say of one that broke a promise: the faults that it
// takes, and what happened, as short as it can be.

#include <cstdint>
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
};

struct Tally {
  std::uint64_t runs = 0;
  std::uint64_t steps = 0;
  Duration simulated{};
  std::optional<std::uint64_t> failed;  // the first seed that broke a promise
  std::string verdict;
};

// Stops at the first run that breaks a promise.
Tally sail(const Campaign& campaign);

// The scenario of one seed of that campaign.
Scenario scenario_of(const Campaign& campaign, std::uint64_t seed);

// Which of the faults it takes to break the same promise, by index: leaving out any other changes
// nothing, leaving out one of these does.
std::vector<int> faults_needed(const Scenario& scenario);

// The seed, the promise, the faults needed, how to play it again, and the last of what happened.
std::string report_of(const Campaign& campaign, std::uint64_t seed);

}  // namespace cpprun::sim
