// SPDX-License-Identifier: BSD-3-Clause
// Tests the judge: typical bugs are planted into copies of the sources (plants/*.patch), and each
// must be found within a number of seeds.

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
  std::string promise;     // the broken promise
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
  Faults faults = ElectionWorld::all_faults();  // the faults that reveal it
};

// In the order of their numbers, from 1.
const std::vector<Plant> plants = {
    {"the lease is counted from the response", 20000, {Fault::cut_from_all}},
    {"it wins although another program is the leader", 200},
    {"it wins with an outdated list of synced standbys", 200},
    {"changes are not compared with the epoch", 500},
    {"a delayed change undoes a later one", 5000},
    {"the key stays with its lease after a new term",
     2000,
     {Fault::election, Fault::member_stopped, Fault::stopped}},
    {"a candidate ignores the last leader's lease after a new term",
     20000,
     {Fault::member_stopped}},
    {"it leads until the very end of its lease", 20000, {Fault::cut_from_all}},
    {"an unused lease is not revoked", 500},
    {"a win that is learned of late counts as a whole lease", 20000},
    {"a leader ignores the end of its lease", 500},
    {"only the first records are read", 200},
    {"the old lease is renewed while the key moves", 20000},
    {"a candidate does not look before it waits",
     20000,
     {Fault::member_stopped, Fault::election, Fault::killed}},
    {"a change that is not sent yet is reported as written", 5000},
    {"a leader writes during a transfer", 200},
    {"the older of two changes is written last", 500},
    {"a resignation deletes the key of the next leader", 2000},
};

}  // namespace

TEST_CASE("each planted bug breaks a promise, and no promise is broken without a bug") {
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
