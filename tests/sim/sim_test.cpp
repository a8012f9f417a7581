// SPDX-License-Identifier: BSD-3-Clause
// What must hold whatever goes wrong: over a fixed set of seeds, over those that once broke a
// promise, and for a minute over seeds that nobody has played. Who leads on is played in
// leading_test.cpp.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "tests/sim/campaign.h"
#include "tests/sim/must_hold.h"
#include "tests/sim/random.h"
#include "tests/sim/secure_wire.h"
#include "tests/sim/world.h"

namespace sim_test {

using namespace cpprun;
using namespace cpprun::sim;
using namespace std::chrono_literals;

namespace {

// A seed that once broke a promise.
struct Known {
  std::uint64_t seed;
  const char* kinds;
  std::vector<int> keep;  // the faults that it took
  int agents = 6;
};

void must_hold_now(const Known& known) {
  Campaign campaign{.first = known.seed,
                    .seeds = 1,
                    .kinds = parse_kinds(known.kinds).value(),
                    .kinds_text = known.kinds,
                    .keep = known.keep};
  campaign.agents_max = known.agents;
  const Tally least = sail(campaign);
  CHECK_MESSAGE(least.broken.empty(), report_of(campaign, least.broken));
  campaign.keep.reset();
  const Tally whole = sail(campaign);
  CHECK_MESSAGE(whole.broken.empty(), report_of(campaign, whole.broken));
}

// Seeds that once broke a promise, with the faults that were enough for it.
const std::vector<Known> known = {
    // The daemon wakes from a stop just when leases are over.
    {7029145, "coordinator", {1}},
    // The last that a draining round has waited for is back as a newcomer.
    {7041945, "all", {1, 2}},
    {20161406, "all", {0, 2}},
    // What a worker has started is there before it sits in the kernel, not after.
    {20053342, "all", {0, 2, 3}},
    {20124418, "all", {0, 1, 3}},
    {20130867, "workers", {0, 1, 2}},
    {1795311018900, "workers,agents", {0, 1, 3}},
    // A worker fails a moment after its node was asked to stop.
    {20055679, "workers,agents", {0, 1}},
    {20154538, "all", {1, 3}},
    // A node that has done its part is cut off.
    {7041374, "network,clocks,kill", {0}},
    {20048923, "network", {0}},
    {1795310997849, "network,clocks,kill", {0, 2}},
    {1795314468972, "all", {1}},
    // A spare meets a job that has just finished.
    {20002781, "coordinator", {}},
    {20067137, "all", {}},
    {5020134, "all", {}},
    // Links that were dialled while the host of the coordinator was stopped are read after the
    // end.
    {1795314804416, "all", {2}},
    {1795314971397, "workers,agents", {0}},
    {1795315043235, "coordinator", {0}},
    // The host of the coordinator sleeps through its own patience while everybody drains.
    {1795319671617, "workers,agents", {1, 2}},
    // Nodes whose patience is over just when the last one has come.
    {1795320128769, "workers,agents", {2, 3}},
    // A spare hears how its job ended when another one has its name.
    {1795320221818, "agents", {0, 1}},
    // Two nodes are lost in one moment, and the round breaks of the first.
    {1795319660068, "coordinator", {0}},
    // A worker that sits in the kernel for ever is sent there once more, for a while.
    {1795314955403, "workers,agents", {0, 1, 3}},
    // The word that a round was sealed is read when another master has sealed one of its number.
    {1795332864248, "all", {0, 1}},
    // Two nodes fall silent in one moment, and a round waits for the first of them.
    {1795333165766, "all,strangers", {2, 3}},
    {1795333213265, "all", {0, 1}},
    // A node that has lost its seat has a worker that sits in the kernel.
    {1795333241440, "workers,agents", {0, 2}},
    {1795337782868, "workers,agents", {2, 3}},
    // The host of the coordinator naps for a quarter of a second, and a lease ends in it.
    {13453, "stuck,stop", {0, 3}},
    // A drain is told again to one that has finished its work meanwhile.
    {1795340619361, "network,clocks,kill", {0, 2, 3}},
    // A worker that sits in the kernel, killed already, would start something.
    {1795340976069, "workers,agents", {0, 1, 3}},
    // A node that comes late to a machine on which the workers of a killed one are still ending.
    {1795346582618, "agents", {0, 1, 3}},
    // A worker fails after its node has heard that another one has, by a clock that drifts.
    {5386140787344, "workers", {1, 2}},
    {5386141008535, "exit,spawn,clocks", {0, 1, 2}},
    // A link is reset where the lease is too short for a network as slow as that.
    {1795373303783, "network,clocks,kill", {0}},
    {1795373527925, "network", {0}},
    // A node is back when its job has just ended, and a stranger keeps the host there.
    {1795373123686, "all,strangers", {0, 2}},
    // A stranger keeps the host there after the end, and somebody comes late.
    {1795338657039, "all,strangers", {0, 1}},
    // A garbled frame names a job that is not played.
    {1795362722575, "strangers", {0, 1, 2}},
    // A last call is over while a link of the last round is broken.
    {5386163430246, "network,clocks,kill", {1, 2}},
    // A job of one node has failed when its spare comes, which begins another of that name.
    {5386163564841, "workers", {2}},
    // A worker fails when its node has just heard of a restart that was asked for.
    {5386181505765, "all,orders", {0, 2}},
    // A second save is asked for when the clocks of some have not come to the first.
    {5386160151206, "orders", {0, 1}},
    // Between two failures of one node a heartbeat told more of its clock, and they changed
    // places.
    {5386159577262, "workers", {1, 2}},
    // A liar's job that needs a host of that name kept it from being excluded anywhere.
    {30001469196, "everything", {0, 2}, 3},
    // A stream that has said nothing when its round ends.
    {726, "everything,stores", {0}},
    {1417, "all,stores", {2}},
    {1586, "network,stores", {0}},
    // A daemon that begins anew gives its first round the number of the one that is over.
    {1002679, "coordinator,stores", {1}},
    {1003200, "coordinator,stores", {0, 3}},
    {1004231, "everything,stores", {0, 2}},
    // A link that waits for bytes somebody has removed; and one that is slow as well.
    {1030, "all,stores,wire", {0}},
    {1052, "everything,wire,stores", {0, 1}},
    // Frames of streams on a link that is being dialled.
    {53, "all,stores,wire", {0}},
    // A job that was over when its coordinator was begun anew, and streams of its last round.
    {7000030569, "records,everything,stores", {2}, 3},
    // A record of a job whose last round everybody has left, and for which others wait.
    {7000086625, "records,exit,agents", {0, 2}, 3},
    // A liar's job, which can do without any host, had one excluded from all jobs to come.
    {21238998, "records,everything,stores", {0, 1, 3}, 6},
    // A node that slept for a lease after it joined read its seal only then, and began.
    {9800117232, "all,strangers,wire", {2}, 6},
    {9800133122, "all,strangers,wire", {1}, 6},
    // One that read its late seal after it had given up that link.
    {107701, "standby,all,stores", {0, 1, 3}, 6},
    // A job that was suspended for nearly a lease: its agents gave their seats up when they woke.
    {9853001829, "all,suspension", {1}, 6},
    // A node that has come back has a seat beside its old self, whose lease is not over.
    {1795626097959, "agents", {0, 1, 3}, 6},
    // A standby that had done its part heard of itself only then, and voted.
    {422, "standby,all", {1}, 5},
    // A master that slept for so long that its watchdog had ended its worker, and still led.
    {8387, "standby,coordinator", {0}, 5},
    // A master that is deposed when its own workers have done their part.
    {1226, "standby,network", {0}, 5},
    // A worker leaves just before its daemon is begun anew: what it was told last was not known.
    {1795536257331, "stores,records", {0, 2}, 2},
    // It is asked to stop the job when it wakes, and another leads.
    {55489, "standby,rules,orders,coordinator,return", {2, 3}, 6},
    // With two that stand by, answers waited for what each of them was never told.
    {131, "set", {}},
    // Who hands over seals a round that nobody hears of, and a job of that name begins.
    {158, "set", {1}},
    // A hand-over waits for etcd, and the job ends meanwhile.
    {666, "set", {0, 1}},
    // A cpprund wakes, keeps a record, and finds that it leads no more.
    {25, "set,coordinator,records", {1}},
    // A link to a standby breaks, then the way to etcd, and not those to the nodes.
    {1438, "set,network,stores", {0}},
    // A worker has said something to one that leads no more.
    {112998, "set,coordinator,records", {1}},
    // A standby is heard by one that leads no more, and does not know it yet.
    {16021, "set,coordinator,records", {}},
    // The next round is sealed in the breath in which a job goes on elsewhere.
    {1982, "set,all,records", {1, 3}},
    // One that had just been handed the lead is cut off from etcd and from all that stood by.
    {1795629402290, "set,standby,stores,orders", {0, 2, 3}, 6},
    // The clock of a daemon runs slower all of a sudden, and does not go back.
    {1795631805737, "set,standby,stores,orders", {1, 3}, 6},
    // A master whose nodes fall silent as the first of them are done.
    {1795631947219, "standby,everything,stores", {0}, 6},
    // A save is asked for while the lead is handed over, and of its round nobody has heard yet.
    {1795630087499, "set,standby,stores,orders", {1, 2, 3}, 6},
    // A stop of one that is cut off: its answer waits behind what the stop itself changed.
    {1795634948052, "set,standby,stores,orders", {0, 1}, 6},
    // Some are told to go before whoever has asked for it hears that it is done.
    {1795637258595, "set,standby,stores,orders", {1}, 6},
    // A job is over and forgotten before all others know of it, and begun anew.
    {1795637259911, "set,standby,stores,orders", {1, 3}, 6},
    // A master whose round drains is cut off from all others for a while.
    {727, "standby,coordinator,network", {1}, 5},
    // The master is asked to end, and another node could lead.
    {502563, "standby,term", {0}, 6},
    // The machine of a master loses its power before the master begins there.
    {1795670475282, "all,records,stores", {0, 1}, 6},
    // A master that is started again while another one leads, and is asked to end at once.
    {1795660593140, "all,standby,stores", {1, 2, 3}, 6},
    // Two failures, over ways so long that clocks are not known as exactly as they differ.
    {1795660599252, "all,set,stores", {0}, 6},
    // A standby whose clock runs fast, and a leader that is lost before the standby is in sync.
    {4242309, "all,set,stores", {0, 1}, 8},
};

}  // namespace

TEST_CASE("in fair weather every job ends with 0 and nothing is restarted") {
  must_hold("none", 1, 250);
}
TEST_CASE("workers may fail, crash, hang, sit in the kernel and leave members behind") {
  must_hold("workers", 10'000, 1000);
}
TEST_CASE("the failure that is called the first is the first, whatever the clocks say") {
  must_hold("exit,spawn,clocks", 20'000, 1000);
}
TEST_CASE("agents may be killed, stopped, signalled and replaced, machines may lose power") {
  must_hold("agents", 30'000, 1000);
}
TEST_CASE("links may break, lead nowhere, stall, and be cut in either direction or both") {
  must_hold("network", 40'000, 1500);
}
TEST_CASE("the coordinator may be killed, stopped, or lose its machine") {
  must_hold("coordinator", 50'000, 500);
}
TEST_CASE("everything may go wrong at once") {
  must_hold("all", 60'000, 2500);
}
TEST_CASE("jobs may have purses, breakers and limits of their own") {
  must_hold("policies", 84'000, 1000);
  must_hold("all,policies", 85'000, 1500);
}

TEST_CASE("no seed that once broke a promise breaks one again") {
  for (const Known& each : known) must_hold_now(each);
}

// The one test here that differs from run to run: what it finds is a bug, and its message has the
// seed. It ends by the clock of the machine, so that a slow one plays fewer.
TEST_CASE("for a minute, seeds that nobody has played keep every promise") {
  const std::vector<std::string> groups = {"all",
                                           "workers",
                                           "exit,spawn,clocks",
                                           "agents",
                                           "network",
                                           "coordinator",
                                           "workers,agents",
                                           "all,strangers",
                                           "orders",
                                           "all,orders",
                                           "all,orders,policies",
                                           "all,stores",
                                           "network,stores",
                                           "records",
                                           "records,workers,network",
                                           "records,all,stores",
                                           "standby,coordinator",
                                           "standby,all",
                                           "standby,everything,stores"};
  const auto begin = std::chrono::system_clock::now();
  const auto each_takes = 60'000ms / groups.size() / slowdown;
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(begin.time_since_epoch());
  auto until = begin;
  for (const std::string& kinds : groups) {
    until += each_takes;
    Campaign campaign{.first = static_cast<std::uint64_t>(milliseconds.count()),
                      .seeds = std::numeric_limits<std::uint32_t>::max(),
                      .kinds = parse_kinds(kinds).value(),
                      .kinds_text = kinds,
                      .keep = {}};
    campaign.may_play = [until](std::uint64_t) { return std::chrono::system_clock::now() < until; };
    const Tally tally = sail(campaign);
    CHECK_MESSAGE(tally.broken.empty(), report_of(campaign, tally.broken));
  }
}

TEST_CASE("a link that is reset between a drained node and the next round costs no round") {
  must_hold("exit,drained-reset", 70'000, 1000);
}
TEST_CASE("no lie of a stranger, nor of another job's agent, changes what a node is told") {
  must_hold("strangers", 80'000, 500);
  must_hold("all,strangers", 81'000, 1000);
}

TEST_CASE("a job that is suspended as a whole ends well, however long that was") {
  must_hold("suspend", 97'000, 750);
  must_hold("all,suspend", 98'500, 750);
}

TEST_CASE("what an operator asks is done, whatever else goes wrong") {
  must_hold("orders", 82'000, 1000);
  must_hold("all,orders", 83'000, 1500);
}

TEST_CASE("where stores are local, each is one store to all workers of its round") {
  must_hold("none,stores", 86'000, 250);
  must_hold("network,stores", 87'000, 750);
  must_hold("coordinator,stores", 88'000, 750);
  must_hold("all,stores", 89'000, 1500);
  must_hold("all,orders,policies,stores", 92'000, 750);
}

TEST_CASE("links that are TLS in pieces keep what plain ones keep, and damaged ones end") {
  must_hold("all,tls", 94'000, 100);
  must_hold("all,stores,wire", 95'000, 200);
  must_hold("network,coordinator,stores,wire", 96'000, 200);
}

TEST_CASE("workers are answered by their stores, and what goes wrong is the same without") {
  const FaultKinds kinds = parse_kinds("all").value();
  FaultKinds with_stores = kinds;
  with_stores.insert(FaultKind::local_stores);
  std::uint64_t answers = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Scenario scenario = draw(seed, 6, with_stores);
    CHECK(scenario.faults == draw(seed, 6, kinds).faults);
    World world{scenario};
    CHECK(world.run().value_or("every promise was kept") == "every promise was kept");
    answers += world.store_answers();
  }
  CHECK(answers > 2000);
}

TEST_CASE("ten thousand agents, of which one in a hundred fails, keep what six keep") {
  must_hold("exit", 1, 1, 10'000);
}

TEST_CASE("broken promises are grouped, whoever they were broken to, the most frequent first") {
  const auto groups = grouped({{1, "node 3 waits without a bound"},
                               {2, "node 4 left a worker behind"},
                               {3, "node 5 left a worker behind: 7"}});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].promise == "node  left a worker behind");
  CHECK(groups[0].seeds == std::vector<std::uint64_t>{2, 3});
  CHECK(groups[1].seeds == std::vector<std::uint64_t>{1});
}

TEST_CASE("a campaign ends when it is told so, and counts what it has played") {
  Campaign campaign{.first = 5, .seeds = 100, .kinds = {}, .kinds_text = "none", .keep = {}};
  campaign.may_play = [](std::uint64_t seed) { return seed < 8; };
  CHECK(sail(campaign).runs == 3);
}

TEST_CASE("a worker that sits in the kernel starts nothing that could stay behind") {
  Scenario scenario{
      .jobs = {{.nodes_min = 1, .nodes_max = 1, .workers_per_node = 1}},
      .faults = {{.kind = FaultKind::worker_stuck, .at = 1s, .lasts = 20s, .nodes = {0}},
                 {.kind = FaultKind::agent_killed, .at = 2s, .nodes = {0}},
                 {.kind = FaultKind::worker_leaves, .at = 4s, .nodes = {0}, .value = 1}}};
  World world{scenario};
  CHECK(world.run().value_or("every promise was kept") == "every promise was kept");
}

TEST_CASE("OpenSSL's random numbers come from the seed") {
  const auto greeting = [](std::uint64_t seed) {
    return SecureWire{Random{seed}, Random{seed}}.begin();
  };
  CHECK(greeting(1) == greeting(1));
  CHECK(greeting(1) != greeting(2));
}

TEST_CASE("the same seed gives the same run, byte for byte") {
  const FaultKinds all = parse_kinds("all,stores,wire").value();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World once{draw(seed, 6, all), true};
    World again{draw(seed, 6, all), true};
    CHECK(once.run() == again.run());
    CHECK(once.transcript() == again.transcript());
    CHECK_FALSE(once.transcript().empty());
  }
}

}  // namespace sim_test
