// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A fixed set of seeds, each of which keeps every promise. A failing seed prints itself, the
// command to play it again, and its trace. `./dev sim` plays other seeds.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "tests/sim/campaign.h"

namespace cpprun::sim {

// Each test plays its number of seeds divided by this. An instrumented build is ten times slower.
// `./dev sim` plays many more.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::uint64_t seed_divisor = 20;
#else
inline constexpr std::uint64_t seed_divisor = 2;
#endif

inline void must_hold(const std::string& kinds, std::uint64_t first, std::uint64_t seeds,
                      int agents_max = 6) {
  const Campaign campaign{.first = first,
                          .seeds = std::max<std::uint64_t>(1, seeds / seed_divisor),
                          .agents_max = agents_max,
                          .kinds = parse_kinds(kinds).value(),
                          .kinds_text = kinds,
                          .keep = {}};
  const Tally tally = sail(campaign);
  if (!tally.broken.empty()) FAIL(report_of(campaign, tally.broken));
  CHECK(tally.runs == campaign.seeds);
}

}  // namespace cpprun::sim
