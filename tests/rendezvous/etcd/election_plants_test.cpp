// SPDX-License-Identifier: BSD-3-Clause
// A judge who never objects proves nothing: bugs such as people make are planted into copies of the
// sources (plants/*.patch), and each must be found within so many seeds.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/rendezvous/etcd/election_world.h"
#include "tests/rendezvous/etcd/plants/planted_bug.h"

namespace election_plants_test {

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;

namespace {

struct Found {
  std::uint64_t seed = 0;  // 0: not found
  std::string promise;     // that was broken
};

using Fault = ElectionFault;
using Faults = std::vector<ElectionFault>;

Found play_with(int bug, std::uint64_t seeds, const Faults& faults = ElectionWorld::all_faults()) {
  Found found;
  planted_bug = bug;
  for (std::uint64_t seed = 1; seed <= seeds && found.seed == 0; ++seed) {
    ElectionWorld world(
        {.programs = 3 + static_cast<int>(seed % 3),
         .etcd = {.members = seed % 4 == 0 ? 5 : 3, .election = seed % 2 == 0 ? 1s : 400ms},
         .faults = faults},
        seed);
    if (auto broken = world.play(); !broken.empty()) found = {seed, std::move(broken)};
  }
  planted_bug = 0;
  return found;
}

struct Plant {
  const char* bug;  // the first line of its patch
  std::uint64_t seeds;
  Faults faults = ElectionWorld::all_faults();  // under which it shows
};

// In the order of their numbers, from 1.
const std::vector<Plant> plants = {
    {"until when it leads is counted from the answer", 20000, {Fault::cut_from_all}},
    {"it wins though somebody else leads", 200},
    {"it wins with an old look at who is synced", 200},
    {"changes are not compared with the epoch", 500},
    {"a change that was held up undoes a later one", 5000},
    {"the key stays with its lease after a new term",
     2000,
     {Fault::election, Fault::member_stopped, Fault::stopped}},
    {"nobody waits for the right of the last leader after a new term",
     20000,
     {Fault::member_stopped}},
    {"it leads to the last moment of its lease", 20000, {Fault::cut_from_all}},
    {"a lease that is not needed is not taken back", 500},
    {"a win that is learnt of late has a whole lease before it", 20000},
    {"nobody waits for the end of a right", 500},
    {"only the first records are read", 200},
    {"the old lease is renewed while the key moves", 20000},
    {"who wants to lead does not look before it waits", 20000},
    {"what is still to be asked for is said to be written", 5000},
    {"it decides on while it hands over", 200},
    {"of two wishes the first is written last", 500},
    {"who says farewell takes the key of whoever leads by then", 2000},
};

}  // namespace

TEST_CASE("each planted bug breaks a promise, and without one none is broken") {
  int number = 0;
  const char* const only = std::getenv("ELECTION_BUG");
  for (const Plant& plant : plants) {
    ++number;
    if (only != nullptr && std::to_string(number) != only) continue;
    const Found found = play_with(number, plant.seeds, plant.faults);
    fmt::print("{:2} {}: seed {}: {}\n", number, plant.bug, found.seed, found.promise);
    std::fflush(stdout);
    CHECK_MESSAGE(found.seed != 0, plant.bug);
  }
  CHECK(play_with(0, 100).seed == 0);
}

}  // namespace election_plants_test
