// SPDX-License-Identifier: BSD-3-Clause
// Tests the judge: typical bugs are planted into copies of the sources (plants/*.patch), and each
// must be found within a number of seeds.

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
  const char* faults;  // the fault groups that reveal it
  std::uint64_t seeds;
  std::uint64_t first = 1;  // just below the last seed that found it, to search for seconds only
};

// By their numbers, from 1.
constexpr Plant plants[] = {
    {"a heartbeat does not renew the lease", "none", 100},
    {"an agent says that it has drained before its workers are gone", "workers", 100},
    {"the budget of restarts is overdrawn by one", "workers", 500},
    {"restarts are counted by each node for itself", "workers", 500},
    {"a drain that was missed on a broken link is not repeated", "network,exit", 2000},
    {"an agent whose lease has expired leaves its workers alive", "network", 1000},
    {"a seat is assigned twice if there are spares", "exit", 500},
    {"a node settles before the groups of its workers are swept", "leftover,exit", 1000},
    {"a worker that ignores SIGTERM never receives SIGKILL", "hang,exit", 500},
    {"failures of a round are counted in the next one", "exit,spawn", 1000},
    {"the watchdog of a stopped agent has no deadline", "stop", 500},
    {"a coordinator that wakes when a lease ends does not read first", "coordinator-stop", 20'000,
     6983},
    {"a node that is reset after its drain is not waited for", "exit,drained-reset", 1000},
    {"after a worker was given up nothing else is swept", "all", 15'000, 10364},
    {"an address that is only claimed is admitted to the store", "strangers", 200},
    {"a node that has done its part gives up with its lease", "network", 20'000, 4765},
    {"a lost node that has done its part is waited for", "network,clocks,kill", 6'000, 3815},
    {"a latecomer to a finished job is rejected", "late,network", 20'000, 675},
    {"a host exits while a node is connected", "late,network", 20'000, 1066},
    {"a node that returns to a draining round settles nothing", "all", 10'000},
    {"a worker that fails after a stop is blamed", "exit,term", 5'000, 1706},
    {"the replacement of a lost node is rejected", "kill,return", 500},
    {"any round number is accepted", "strangers", 500},
    {"a newcomer makes finished nodes start again", "late", 1'000},
    {"an agent is identified by host and process only", "strangers", 500},
    {"nodes that fall silent together are given up one by one", "coordinator-stop,partition",
     20'000, 4117},
    {"a node without a seat sends messages while its workers are killed", "stop", 500},
    {"a pending save outlives its round", "orders", 5'000},
    {"a drained node that missed the message is admitted again", "order-drain,break,half-open",
     20'000, 5434},
    {"the accounting forgets the time before a change of accounts", "workers", 200},
    {"a host is excluded one failure too early", "workers,policies", 2'000},
    {"a frame that is repeated on a new link is executed twice", "network,stores", 500},
    {"a frame that was lost with a link is not repeated", "network,stores", 500},
    {"requests of an old round's workers reach the next round", "all,stores", 20'000, 471},
    {"a newcomer repeats frames of its last round", "coordinator,stores", 20'000, 2363},
    {"a stream that waits for room is not resumed", "none,stores", 100},
    {"an idle stream outlives its round", "all,stores", 10'000, 322},
    {"the clients of a finished round are not closed", "workers,stores", 500},
    {"the judge of a history forgets one operation", "none,stores", 100},
    {"deciphered bytes are delivered twice", "none,tls", 100},
    {"the next coordinator forgets the used restarts", "records,exit", 20'000},
    {"a node that stays away from the next coordinator is waited for", "records,agents", 5'000,
     275},
    {"a round whose local store is lost goes on", "set,coordinator,records", 5'000, 98},
    {"the stored record of a job is one round old", "records,exit", 20'000},
    {"a standby leads with half of the votes", "standby,partition", 5'000, 297},
    {"a coordinator without followers continues", "standby,partition", 10'000},
    {"a node that has done its part still votes", "standby,coordinator", 20'000, 217},
    {"the next round starts while another node can still lead", "standby,network,exit", 20'000,
     278},
    {"a leader sends messages after its lease", "set,coordinator", 5'000, 1985},
    {"workers are answered before the standby has the change", "set", 2'000, 630},
    {"the next leader does not know what the last one had read", "set", 2'000},
    {"a lost standby that was in sync is not waited for", "daemon-set,daemon-cut", 20'000, 1433},
    {"a standby that was not in sync resumes with its data", "set,coordinator,records", 20'000,
     298},
    {"a leader that steps down still sends its last decisions", "set,coordinator", 20'000, 1958},
    {"a stale epoch is accepted", "set,coordinator", 5'000, 1985},
    {"a vote that is repeated on another link counts twice", "standby,partition", 5'000, 535},
    {"a coordinator that gave up never leads again", "standby,coordinator,network", 10'000, 530},
    {"an answer of a worker about an earlier round counts", "reconfigure,workers", 2'000},
    {"a worker that has exited gets a place", "reconfigure,workers", 5'000},
    {"a worker that changes rounds keeps its rank", "reconfigure,agents", 2'000},
    {"a worker is restarted before its process group is gone", "alone,leftover,workers", 5'000,
     2050},
    {"a repeated failure uses another restart", "alone,break,exit", 2'000},
    {"an upgraded agent counts its lease from its start", "upgrades,network", 20'000,
     12'330},
};

}  // namespace

TEST_CASE("without a bug no promise is broken") {
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
  CHECK(sail_with(0, "alone,network,workers", 500).broken.empty());
  CHECK(sail_with(0, "all,stores", 500).broken.empty());
  CHECK(sail_with(0, "none,tls", 50).broken.empty());
  CHECK(sail_with(0, "records,all", 500).broken.empty());
  CHECK(sail_with(0, "standby,all", 500).broken.empty());
  CHECK(sail_with(0, "set,coordinator", 500).broken.empty());
  CHECK(sail_with(0, "upgrades,all", 500).broken.empty());
  CHECK(sail_with(0, "reconfigure,everything", 500).broken.empty());
}

TEST_CASE("every planted bug is found") {
  int number = 0;
  const char* const only = std::getenv("SIM_BUG");
  for (const Plant& plant : plants) {
    ++number;
    if (only != nullptr && std::to_string(number) != only) continue;
    // Other fault groups, to look for a group that finds it.
    const char* const faults = std::getenv("SIM_FAULTS");
    const Tally tally =
        sail_with(number, faults == nullptr ? plant.faults : faults, plant.seeds, plant.first);
    CHECK_MESSAGE(!tally.broken.empty(), "nothing was found though ", std::string(plant.bug));
    if (tally.broken.empty()) continue;
    MESSAGE("bug ", number, ", seed ", tally.broken[0].seed, ": ", tally.broken[0].verdict);
  }
}
