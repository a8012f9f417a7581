// SPDX-License-Identifier: BSD-3-Clause
// Three to five programs and an etcd of three or five members, with all kinds of faults. A seed
// decides; a seed that breaks a promise prints its trace.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "proto/text.h"
#include "rendezvous/etcd/bounds.h"
#include "tests/rendezvous/etcd/election_world.h"

namespace election_sim_test {

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : exact_number<std::uint64_t>(text).value_or(otherwise);
}

ElectionWorld::Options options_of(std::uint64_t seed) {
  return {.programs = 3 + static_cast<int>(seed % 3),
          .ttl = seed % 7 == 0   ? 10s
                 : seed % 5 == 0 ? 5s
                                 : 2s,
          .etcd = {.members = seed % 4 == 0 ? 5 : 3, .election = seed % 2 == 0 ? 1s : 400ms}};
}

}  // namespace

TEST_CASE("there is at most one leader, no write is lost, and there is a leader in the end") {
  const auto first = from_environment("ELECTION_FIRST", 1);
  const auto seeds = from_environment("ELECTION_SEEDS", 400);
  int leaders = 0;
  std::size_t requests = 0;
  std::size_t steps = 0;
  Duration gap{};
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    ElectionWorld world(options_of(seed), seed);
    const std::string broken = world.play();
    if (!broken.empty()) {
      for (const auto& line : world.trace()) fmt::print("{}\n", line);
      FAIL("ELECTION_FIRST=" << seed << " ELECTION_SEEDS=1: " << broken);
    }
    leaders += world.leaders();
    requests += world.requests();
    steps += world.steps();
    gap = std::max(gap, world.longest_gap());
  }
  fmt::print(
      "{} seeds, {} leaders, {} requests, {} steps; no leader for at most {:.1f} s after the last "
      "fault\n",
      seeds, leaders, requests, steps, in_seconds(gap));
  CHECK(leaders > static_cast<int>(2 * seeds));
}

TEST_CASE("with the default lease a slow etcd deposes no leader") {
  const auto seeds = from_environment("ELECTION_SEEDS", 400) / 8;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    auto options = options_of(seed);
    options.ttl = bounds::election_ttl;
    options.faults = {ElectionFault::slowness};
    options.keeps_lead = true;
    ElectionWorld world(options, seed);
    const std::string broken = world.play();
    if (!broken.empty()) {
      for (const auto& line : world.trace()) fmt::print("{}\n", line);
      FAIL("seed " << seed << ": " << broken);
    }
  }
}

}  // namespace election_sim_test
