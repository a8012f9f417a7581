// SPDX-License-Identifier: BSD-3-Clause
// A judge who never objects proves nothing: bugs such as people make are planted into copies of
// the sources (plants/*.patch), and each must be found within so many seeds.

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "tests/sim/campaign.h"
#include "tests/sim/plants/planted_bug.h"

using namespace cpprun;
using namespace cpprun::sim;

namespace {

Tally sail_with(int bug, const std::string& kinds, std::uint64_t seeds, std::uint64_t first = 1) {
  planted_bug = bug;
  const Tally tally = sail({.first = first,
                            .seeds = seeds,
                            .agents_max = 6,
                            .kinds = parse_kinds(kinds).value(),
                            .kinds_text = kinds,
                            .keep = {}});
  planted_bug = 0;
  return tally;
}

struct Plant {
  const char* bug;     // the first line of its patch
  const char* faults;  // under which it shows
  std::uint64_t seeds;
  std::uint64_t first = 1;  // near the one that found it last: the search takes seconds then
};

// In the order of their numbers, from 1.
constexpr Plant plants[] = {
    {"a heartbeat does not renew the lease", "none", 100},
    {"an agent says that it has drained before its workers are gone", "workers", 100},
    {"the budget of restarts is overdrawn by one", "workers", 500},
    {"restarts are counted by each node for itself", "workers", 500},
    {"a drain that was missed while the link was down is not told again", "network,exit", 2000},
    {"an agent whose lease is over leaves its workers alive", "network", 1000},
    {"with nodes to spare a seat is given away twice", "exit", 500},
    {"a node settles before the groups of its workers are swept", "leftover,exit", 1000},
    {"who ignores TERM is never sent KILL", "hang,exit", 500},
    {"the failures of a round are taken for the next one's", "exit,spawn", 1000},
    {"the watchdog of a stopped agent is told of no fence", "stop", 500},
    {"a coordinator that wakes just when a lease ends does not read first", "coordinator-stop",
     20'000, 6983},
    {"who is reset after it has drained is not waited for", "exit,drained-reset", 1000},
    {"where a worker was given up nothing else is swept", "all", 15'000, 10364},
    {"an address that is only claimed is admitted to the store", "strangers", 200},
    {"a node that has done its part gives up with the lease", "network", 20'000, 4765},
    {"a node that has done its part is waited for in vain", "network,clocks,kill", 6'000, 3815},
    {"who comes late to a job that is over is refused", "late,network", 20'000, 675},
    {"a host leaves while somebody is connected", "late,network", 20'000, 1066},
    {"who comes back to a draining round settles nothing", "all", 10'000},
    {"who ends badly of a stop is blamed", "exit,term", 5'000, 1706},
    {"who is started in the place of one that is gone is refused", "kill,return", 500},
    {"any number of a round is believed", "strangers", 500},
    {"a newcomer makes those who have finished begin again", "late", 1'000},
    {"who knows an agent's host and process is taken for it", "strangers", 500},
    {"nodes that fall silent in one moment are given up one by one", "coordinator-stop,partition",
     20'000, 4117},
    {"who has lost its seat speaks on while its workers are killed", "stop", 500},
    {"a save that is due outlives its round", "orders", 5'000},
    {"a drained node that did not hear it is let in again", "order-drain,break,half-open", 20'000,
     5434},
    {"the ledger forgets the time before a change of accounts", "workers", 200},
    {"a host is left out one failure too early", "workers,policies", 2'000},
    {"what is said again on a new link is carried out twice", "network,stores", 500},
    {"what was lost with a link is not said again", "network,stores", 500},
    {"what workers of an old round have said is taken by the next", "all,stores", 20'000, 471},
    {"a newcomer says again what was said in its last round", "coordinator,stores", 20'000, 2363},
    {"who has waited for room in a stream is not told", "none,stores", 100},
    {"a stream that has said nothing outlives its round", "all,stores", 10'000, 322},
    {"the clients of a round that is over are not closed", "workers,stores", 500},
    {"the judge of a history forgets one operation", "none,stores", 100},
    {"what was deciphered and taken is there once more", "none,tls", 100},
    {"the next coordinator forgets what was used of the restarts", "records,exit", 20'000},
    {"who stays away from the next coordinator is waited for in vain", "records,agents", 5'000,
     275},
    {"a round whose local store is gone goes on", "set,coordinator,records", 5'000, 98},
    {"what was kept of a job is that of the round before", "records,exit", 20'000},
    {"a standby leads with half of the votes", "standby,partition", 5'000, 297},
    {"a coordinator that nobody follows goes on", "standby,partition", 10'000},
    {"who has done its part votes all the same", "standby,coordinator", 20'000, 217},
    {"the next round does not wait until nobody else can lead", "standby,network,exit", 20'000,
     278},
    {"who leads speaks on when its right is over", "set,coordinator", 5'000, 1985},
    {"workers are answered before whoever stands by has it", "set", 2'000, 630},
    {"the next leader does not know what the last one had read", "set", 2'000},
    {"nobody waits for whoever was in sync and is gone", "daemon-set,daemon-cut", 20'000, 1433},
    {"who was not in sync goes on with what it had", "set,coordinator,records", 20'000, 298},
    {"who stops to lead is heard with the rest of what it decides", "set,coordinator", 20'000,
     1958},
    {"a stale epoch is accepted", "set,coordinator", 5'000, 1985},
    {"a vote that comes again, through another link, is one more", "standby,partition", 5'000, 535},
    {"a coordinator that gave up never leads again", "standby,coordinator,network", 10'000, 530},
};

}  // namespace

TEST_CASE("without a bug nothing is found") {
  CHECK(sail_with(0, "all", 500).broken.empty());
  CHECK(sail_with(0, "network", 500).broken.empty());
  CHECK(sail_with(0, "stop", 500).broken.empty());
  CHECK(sail_with(0, "exit,drained-reset", 300).broken.empty());
  CHECK(sail_with(0, "strangers", 500).broken.empty());
  CHECK(sail_with(0, "exit,term", 500).broken.empty());
  CHECK(sail_with(0, "kill,return", 500).broken.empty());
  CHECK(sail_with(0, "late", 500).broken.empty());
  CHECK(sail_with(0, "orders", 500).broken.empty());
  CHECK(sail_with(0, "workers,policies", 500).broken.empty());
  CHECK(sail_with(0, "all,stores", 500).broken.empty());
  CHECK(sail_with(0, "none,tls", 50).broken.empty());
  CHECK(sail_with(0, "records,all", 500).broken.empty());
  CHECK(sail_with(0, "standby,all", 500).broken.empty());
  CHECK(sail_with(0, "set,coordinator", 500).broken.empty());
}

TEST_CASE("every planted bug is found") {
  int number = 0;
  const char* const only = std::getenv("SIM_BUG");
  for (const Plant& plant : plants) {
    ++number;
    if (only != nullptr && std::to_string(number) != only) continue;
    // Other groups, to look for one that finds it.
    const char* const faults = std::getenv("SIM_FAULTS");
    const Tally tally =
        sail_with(number, faults == nullptr ? plant.faults : faults, plant.seeds, plant.first);
    CHECK_MESSAGE(!tally.broken.empty(), "nothing was found though ", std::string(plant.bug));
    if (tally.broken.empty()) continue;
    MESSAGE("bug ", number, ", seed ", tally.broken[0].seed, ": ", tally.broken[0].verdict);
  }
}
