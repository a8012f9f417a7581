// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/agent.h"

#include <doctest/doctest.h>

#include <csignal>

#include "launcher/agent/bounds.h"
#include "launcher/workers/bounds.h"
#include "tests/launcher/agent/agent_stage.h"

namespace agent_test {

using namespace cpprun;
using namespace cpprun::testing;
using namespace std::chrono_literals;

TEST_CASE("an agent dials, joins with the facts the coordinator needs, and starts its workers") {
  Agent agent{two_nodes(), facts()};
  CHECK(all<agent::Dial>(agent.start(t0)).size() == 1);
  const auto joined = agent.handle(t0, agent::LinkUp{"10.0.0.2"});
  REQUIRE(said<link::Join>(joined).size() == 1);
  const link::Join join = said<link::Join>(joined)[0];
  CHECK(join.job == "j");
  CHECK(join.host == "beta");
  CHECK(join.node_rank == 1);
  CHECK(join.after == RoundNumber{});
  CHECK(join.addresses == std::vector<std::string>{"10.0.0.2"});

  const auto running = agent.handle(t0, agent::Heard{seat()});
  CHECK(all<agent::Prepare>(running).size() == 1);
  REQUIRE(work<supervisor::Spawn>(running).size() == 1);
  const WorkerSpec spec = work<supervisor::Spawn>(running)[0].spec;
  CHECK(spec.rank == Rank{1});
  CHECK(spec.variables.at("GLOO_SOCKET_IFNAME") == "eth0");
}

TEST_CASE(
    "an unreachable master is dialled again with growing pauses, and the reason is reported") {
  Agent agent{two_nodes(), facts()};
  agent.start(t0);
  CHECK(agent.handle(t0, agent::LinkDown{"connection refused"}).empty());
  CHECK(agent.next_deadline() == t0 + 50ms);
  CHECK(all<agent::Dial>(agent.advance(t0 + 50ms)).size() == 1);
  agent.handle(t0 + 50ms, agent::LinkDown{"connection refused"});
  CHECK(agent.next_deadline() == t0 + 150ms);
  const auto reported = all<events::Waiting>(agent.advance(t0 + 2s));
  REQUIRE(reported.size() == 1);
  CHECK(reported[0].reason ==
        "no response from the master at 10.0.0.1:29500: connection refused; 598 s left");
}

TEST_CASE("a node without a seat gives up in time, reports what it waited for, and exits with 1") {
  Stage stage;
  stage.join();
  stage.heard(t0 + 599s, link::Waiting{"1 of 2 nodes have joined; missing: node rank 0"});
  const auto last = stage.agent.advance(t0 + 600s);
  CHECK(said<link::Leave>(last).size() == 1);
  REQUIRE(all<events::JobEnded>(last).size() == 1);
  CHECK(all<events::JobEnded>(last)[0].exit_code == 1);
  CHECK(all<events::JobEnded>(last)[0].reason ==
        "gave up after 600 s: 1 of 2 nodes have joined; missing: node rank 0");
}

TEST_CASE("a spare waits without limit until it has a seat") {
  Stage stage;
  stage.join();
  stage.heard(t0, link::Waiting{.reason = "all 2 places are taken", .spare = true});
  CHECK(stage.agent.next_deadline() == t0 + 1s);  // the heartbeat
  stage.answered(t0 + 24h);
  CHECK(all<events::JobEnded>(stage.agent.advance(t0 + 24h)).empty());
  CHECK(work<supervisor::Spawn>(stage.heard(t0 + 24h, seat())).size() == 1);
}

TEST_CASE("a lease of one heartbeat is renewed before it expires") {
  Config config = two_nodes();
  config.keep_alive_attempts_max = 1;
  Agent agent{config, facts()};
  agent.start(t0);
  agent.handle(t0, agent::LinkUp{"10.0.0.2"});
  agent.handle(t0, agent::Heard{link::Waiting{.reason = "a spare", .spare = true}});
  CHECK(agent.next_deadline() == t0 + 500ms);
  CHECK(said<link::Heartbeat>(agent.advance(t0 + 500ms)).size() == 1);
}

TEST_CASE("a rejection ends the agent with the coordinator's reason") {
  Stage stage;
  stage.join();
  const auto last = all<events::JobEnded>(stage.heard(t0, link::Refused{"node rank 1 is taken"}));
  REQUIRE(last.size() == 1);
  CHECK(last[0].exit_code == 1);
  CHECK(last[0].reason == "the master at 10.0.0.1:29500 rejected this node: node rank 1 is taken");
}

TEST_CASE("a wrong GLOO_SOCKET_IFNAME is an error before anything starts") {
  AgentFacts wrong = facts();
  wrong.node.environment["GLOO_SOCKET_IFNAME"] = "nope0";
  Agent agent{two_nodes(), wrong};
  agent.start(t0);
  const auto actions = agent.handle(t0, agent::LinkUp{"10.0.0.2"});
  CHECK(said<link::Join>(actions).empty());
  REQUIRE(all<events::JobEnded>(actions).size() == 1);
  CHECK(all<events::JobEnded>(actions)[0].exit_code == 2);
  CHECK(all<events::JobEnded>(actions)[0].reason.find("nope0") != std::string::npos);
}

TEST_CASE("workers that all exit with 0 are a success, and the agent waits for the other nodes") {
  Stage stage;
  stage.run();
  const auto actions = stage.end_worker(t0 + 1s, {});
  CHECK(said<link::Succeeded>(actions) == std::vector{link::Succeeded{first}});
  CHECK(all<events::JobEnded>(actions).empty());
  const auto last = all<events::JobEnded>(stage.heard(t0 + 2s, link::Finish{.exit_code = 0}));
  REQUIRE(last.size() == 1);
  CHECK(last[0].exit_code == 0);
}

TEST_CASE("a failure is diagnosed once, and all reports carry that verdict") {
  Stage stage;
  stage.run();
  const auto actions =
      stage.end_worker(t0, {.value = 1}, "OSError: [Errno 28] No space left on device");
  const auto reported = all<events::WorkerFailed>(actions);
  REQUIRE(reported.size() == 1);
  CHECK(reported[0].end.diagnosis().cause == "disk_full");
  CHECK(reported[0].failure.cause == "disk_full");
  REQUIRE(said<link::Failed>(actions).size() == 1);
  CHECK(said<link::Failed>(actions)[0].failure == reported[0].failure);
}

TEST_CASE("a failure is reported at once, and drained only when no process is left") {
  Stage stage;
  stage.run();
  const auto failed = stage.worker(
      t0, supervisor::Exited{LocalRank{0}, {.signalled = false, .value = 3}, WallTime{}});
  REQUIRE(all<agent::Examine>(failed).size() == 1);
  const auto reported =
      stage.agent.handle(t0, agent::Examined{{.outcome = all<agent::Examine>(failed)[0].outcome}});
  REQUIRE(said<link::Failed>(reported).size() == 1);
  CHECK(said<link::Failed>(reported)[0].failure.status.value == 3);
  CHECK(said<link::Failed>(reported)[0].failure.rank == Rank{1});
  CHECK(said<link::Failed>(reported)[0].failure.host == "beta");
  CHECK(stage.worker(t0, supervisor::GroupGone{LocalRank{0}}).size() == 1);  // SweepNode
  const auto drained = stage.worker(t0, supervisor::NodeSwept{});
  CHECK(said<link::Drained>(drained) == std::vector{link::Drained{first}});
  const auto last = all<events::JobEnded>(
      stage.heard(t0, link::Finish{.exit_code = 3, .reason = "rank 1 on beta failed"}));
  REQUIRE(last.size() == 1);
  CHECK(last[0].exit_code == 3);
}

TEST_CASE("a failure elsewhere stops this node's workers") {
  Stage stage;
  stage.run();
  const auto drain = stage.heard(t0, link::Drain{first, "rank 0 on alpha failed"});
  REQUIRE(work<supervisor::SignalMain>(drain).size() == 1);
  CHECK(work<supervisor::SignalMain>(drain)[0].signal == SIGTERM);
  CHECK(stage.agent.next_deadline() == t0 + 1s);  // the heartbeat; the grace is later
  const auto ended = stage.end_worker(t0 + 1s, {.signalled = true, .value = SIGTERM});
  CHECK(said<link::Failed>(ended).empty());
  CHECK(said<link::Drained>(ended) == std::vector{link::Drained{first}});
}

TEST_CASE("a drain that crosses the last worker's exit with 0 is still answered with drained") {
  Stage stage;
  stage.run();
  stage.worker(t0, supervisor::Exited{LocalRank{0}, {}, WallTime{}});
  stage.worker(t0, supervisor::GroupGone{LocalRank{0}});
  stage.heard(t0, link::Drain{first, "rank 0 on alpha failed"});
  const auto finished = stage.worker(t0, supervisor::NodeSwept{});
  CHECK(said<link::Drained>(finished) == std::vector{link::Drained{first}});
  CHECK(said<link::Succeeded>(finished).empty());
}

TEST_CASE("a node that has succeeded drains at once when the round breaks") {
  Stage stage;
  stage.run();
  stage.end_worker(t0, {});
  const auto actions = stage.heard(t0, link::Drain{first, "rank 0 on alpha failed"});
  CHECK(said<link::Drained>(actions) == std::vector{link::Drained{first}});
}

TEST_CASE("a new round after a drain starts the workers again, with its own numbers") {
  Stage stage;
  stage.run();
  stage.heard(t0, link::Drain{first, "rank 0 on alpha failed"});
  stage.end_worker(t0, {.signalled = true, .value = SIGTERM});
  link::Sealed next = seat(second);
  next.restart_count = 1;
  const auto actions = stage.heard(t0 + 1s, next);
  REQUIRE(work<supervisor::Spawn>(actions).size() == 1);
  CHECK(work<supervisor::Spawn>(actions)[0].spec.variables.at("TORCHELASTIC_RESTART_COUNT") == "1");
}

// --- workers that change rounds (--on-failure=reconfigure)

namespace {

// The worker of this node can change rounds.
Stage reconfigurable() {
  Config config = two_nodes();
  config.restarts = {.max = 3, .reconfigures = true};
  Stage stage(false, config);
  stage.run();
  stage.worker(t0, supervisor::Rejoins{});
  return stage;
}

// It has left the first round, which a failure elsewhere broke.
Stage between_rounds() {
  Stage stage = reconfigurable();
  const auto leaves = stage.heard(
      t0, link::Drain{.round = first, .reason = "rank 0 failed", .keeps_workers = true});
  CHECK(work<supervisor::LeaveRound>(leaves) ==
        std::vector{supervisor::LeaveRound{LocalRank{0}, first}});
  const auto left = stage.worker(t0, supervisor::Rejoins{LocalRank{0}, first});
  CHECK(said<link::Drained>(left).size() == 1);
  return stage;
}

}  // namespace

TEST_CASE("a worker that has left its round takes its place in the next one") {
  Stage stage = between_rounds();
  const auto begins = stage.heard(t0, seat(second));
  const auto places = work<supervisor::TakePlace>(begins);
  REQUIRE(places.size() == 1);
  CHECK(places[0].spec.rank == Rank{1});
  CHECK(work<supervisor::Spawn>(begins).empty());
  REQUIRE(all<agent::Prepare>(begins).size() == 1);
  CHECK(all<agent::Prepare>(begins)[0].remaining == std::vector{LocalRank{0}});
  // It runs as any other worker.
  const auto ends = stage.heard(t0, link::Drain{.round = second, .reason = "rank 0 failed"});
  CHECK(work<supervisor::SignalMain>(ends).size() == 1);
}

TEST_CASE("a drain that keeps no workers ends those that could change rounds") {
  Stage stage = reconfigurable();
  const auto ends = stage.heard(t0, link::Drain{.round = first, .reason = "rank 0 failed"});
  CHECK(work<supervisor::SignalMain>(ends).size() == 1);
  CHECK(work<supervisor::LeaveRound>(ends).empty());
}

TEST_CASE("a worker between two rounds is ended when the job ends, and then the agent exits") {
  Stage stage = between_rounds();
  const auto ends = stage.heard(t0, link::Finish{.exit_code = 3, .reason = "rank 0 failed"});
  CHECK(work<supervisor::SignalMain>(ends).size() == 1);
  CHECK(all<events::JobEnded>(ends).empty());
  const auto gone = stage.end_worker(t0, {.signalled = true, .value = SIGTERM});
  REQUIRE(all<events::JobEnded>(gone).size() == 1);
  CHECK(all<events::JobEnded>(gone)[0].exit_code == 3);
}

TEST_CASE("a worker between two rounds is killed when its node loses its seat") {
  Stage stage = between_rounds();
  CHECK(kills(stage.pass(t0 + 10s)));
}

TEST_CASE("a node whose workers are between two rounds resumes as one without running workers") {
  Stage stage = between_rounds();
  stage.agent.handle(t0, agent::LinkDown{"reset"});
  const auto resumes = stage.agent.handle(t0, agent::LinkUp{"10.0.0.2"});
  REQUIRE(said<link::Join>(resumes).size() == 1);
  CHECK(said<link::Join>(resumes)[0].idle);
  CHECK(said<link::Join>(resumes)[0].after == first);
  CHECK(said<link::Drained>(resumes).size() == 1);
}

TEST_CASE("a second seal of a running round starts nothing") {
  Stage stage;
  stage.run();
  CHECK(work<supervisor::Spawn>(stage.heard(t0, seat())).empty());
}

TEST_CASE("a broken link is dialled again and resumes without interrupting the workers") {
  Stage stage;
  stage.run();
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  const auto dialled = stage.agent.advance(t0 + 1s + 50ms);
  CHECK(all<agent::Dial>(dialled).size() == 1);
  const auto resumed = stage.agent.handle(t0 + 2s, agent::LinkUp{"10.0.0.2"});
  REQUIRE(said<link::Join>(resumed).size() == 1);
  CHECK(said<link::Join>(resumed)[0].after == first);
  CHECK(work<supervisor::SignalGroup>(resumed).empty());
}

TEST_CASE("messages queued while the link was down are sent when it is back") {
  Stage stage;
  stage.run();
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  CHECK(said<link::Succeeded>(stage.end_worker(t0 + 1s, {})).empty());
  const auto resumed = stage.agent.handle(t0 + 2s, agent::LinkUp{"10.0.0.2"});
  CHECK(said<link::Succeeded>(resumed) == std::vector{link::Succeeded{first}});
}

TEST_CASE(
    "a signal stops the workers with the same signal, and the agent exits with 128 plus its "
    "number") {
  Stage stage;
  stage.run();
  const auto stopping = stage.agent.handle(t0, agent::Signalled{SIGINT});
  CHECK(said<link::Leave>(stopping).size() == 1);
  REQUIRE(work<supervisor::SignalMain>(stopping).size() == 1);
  CHECK(work<supervisor::SignalMain>(stopping)[0].signal == SIGINT);
  const auto last =
      all<events::JobEnded>(stage.end_worker(t0 + 1s, {.signalled = true, .value = SIGINT}));
  REQUIRE(last.size() == 1);
  CHECK(last[0].exit_code == 130);
}

TEST_CASE("a second signal kills the workers at once") {
  Stage stage;
  stage.run();
  stage.agent.handle(t0, agent::Signalled{SIGINT});
  const auto insisting = stage.agent.handle(t0 + 1s, agent::Signalled{SIGINT});
  REQUIRE(work<supervisor::SignalGroup>(insisting).size() == 1);
  CHECK(work<supervisor::SignalGroup>(insisting)[0].signal == SIGKILL);
}

TEST_CASE("a repeated signal from a scheduler leaves the workers their grace period") {
  Stage stage;
  stage.run();
  const agent::Signalled end{SIGTERM, "Slurm ended the job (time limit)"};
  stage.agent.handle(t0, end);
  CHECK(work<supervisor::SignalGroup>(stage.agent.handle(t0 + 1s, end)).empty());
  // A person can still cut it short.
  const auto insisting = stage.agent.handle(t0 + 2s, agent::Signalled{SIGTERM});
  REQUIRE(work<supervisor::SignalGroup>(insisting).size() == 1);
  CHECK(work<supervisor::SignalGroup>(insisting)[0].signal == SIGKILL);
}

TEST_CASE("a worker that survives KILL takes its node out, and drained is never sent") {
  Stage stage;
  stage.run();
  stage.heard(t0, link::Drain{first, "rank 0 on alpha failed"});
  Agent::Actions last;
  for (TimePoint now = t0 + 1s; all<events::JobEnded>(last).empty() && now < t0 + 60s; now += 1s) {
    stage.answered(now);
    last = stage.agent.advance(now);
    CHECK(said<link::Drained>(last).empty());
    if (!work<supervisor::SweepNode>(last).empty()) {
      last = stage.worker(now, supervisor::NodeSwept{});
      stage.examine_all(now, last);
      CHECK(said<link::Drained>(last).empty());
    }
  }
  REQUIRE(all<events::JobEnded>(last).size() == 1);
  CHECK(all<events::JobEnded>(last)[0].reason.find("ignores SIGKILL") != std::string::npos);
}

TEST_CASE("a signal before the node has a seat ends the agent at once") {
  Stage stage;
  const auto last = all<events::JobEnded>(stage.agent.handle(t0, agent::Signalled{SIGTERM}));
  REQUIRE(last.size() == 1);
  CHECK(last[0].exit_code == 143);
  CHECK(last[0].reason == "interrupted while waiting for the master (SIGTERM)");
}

TEST_CASE("a master interrupted while it waits for nodes reports that, and nothing else") {
  Stage stage{true};
  stage.join();
  const auto interrupted = stage.agent.handle(t0, agent::Signalled{SIGINT});
  CHECK(said<link::Leave>(interrupted).size() == 1);
  const auto last = stage.heard(
      t0, link::Finish{.exit_code = 130, .reason = "the master on beta left: asked to stop"});
  CHECK(notes(last).empty());
  REQUIRE(all<events::JobEnded>(last).size() == 1);
  CHECK(all<events::JobEnded>(last)[0].exit_code == 130);
  CHECK(all<events::JobEnded>(last)[0].reason == "interrupted while waiting for nodes (SIGINT)");
}

TEST_CASE("the coordinator's host stays until the coordinator reports that the job is over") {
  Stage stage{true};
  stage.run();
  stage.agent.handle(t0, agent::Signalled{SIGTERM});
  const auto ended = stage.end_worker(t0, {.signalled = true, .value = SIGTERM});
  CHECK(all<events::JobEnded>(ended).empty());
  CHECK(said<link::Drained>(ended).size() == 1);
  const auto last = all<events::JobEnded>(stage.heard(t0, link::Finish{.exit_code = 143}));
  REQUIRE(last.size() == 1);
  CHECK(last[0].exit_code == 143);
}

TEST_CASE("an agent that hosts its coordinator has no deadline once the workers use the store") {
  Stage stage{true};
  stage.run();
  CHECK(stage.agent.next_deadline() == t0 + bounds::own_world_timeout);
  stage.agent.handle(t0 + 60s, agent::WorldSeen{{.store_asked = true}});
  CHECK(stage.agent.next_deadline() == std::nullopt);
}

TEST_CASE("nothing is sent after the agent has exited") {
  Stage stage;
  stage.join();
  stage.heard(t0, link::Refused{"no"});
  CHECK(stage.heard(t0, seat()).empty());
  CHECK(stage.agent.advance(t0 + 1h).empty());
  CHECK(stage.agent.next_deadline() == std::nullopt);
}

TEST_CASE("descendants that survive KILL are reported, and the round continues without them") {
  Stage stage;
  stage.run();
  stage.worker(t0, supervisor::Exited{LocalRank{0}, {}, WallTime{}});
  stage.worker(t0, supervisor::GroupGone{LocalRank{0}});
  for (auto at = 1s; at < bounds::kill_timeout; ++at) stage.answered(t0 + at);
  const auto finished = stage.agent.advance(t0 + bounds::kill_timeout);
  REQUIRE(notes(finished).size() == 1);
  CHECK(notes(finished)[0].sentence.find("ignores SIGKILL") != std::string::npos);
  CHECK(said<link::Succeeded>(finished).size() == 1);
}

TEST_CASE("the other workers are signalled before evidence of the first failure is collected") {
  Config config = two_nodes();
  config.local_world_size = 2;
  Stage stage(false, config);
  stage.join();
  stage.heard(t0, seat());
  stage.worker(t0, supervisor::Started{LocalRank{0}, 100});
  stage.worker(t0, supervisor::Started{LocalRank{1}, 101});
  const auto failed =
      stage.worker(t0 + 1s, supervisor::Exited{LocalRank{0}, {.value = 3}, WallTime{}});
  REQUIRE(work<supervisor::SignalMain>(failed).size() == 1);
  REQUIRE(all<agent::Examine>(failed).size() == 1);
  CHECK(std::holds_alternative<agent::Examine>(failed.back()));
}

TEST_CASE("an unreachable interface is reported when the round begins, and is evidence") {
  AgentFacts here = facts();
  here.interfaces[0].networks = {"127.0.0.1/8"};
  here.interfaces[1].networks = {"10.0.0.2/24"};
  here.node.environment = {{"GLOO_SOCKET_IFNAME", "lo"}};
  Agent agent(two_nodes(), here);
  agent.start(t0);
  agent.handle(t0, agent::LinkUp{"10.0.0.2"});
  link::Sealed sealed = seat();
  sealed.neighbour = {"10.0.0.1"};
  const auto begun = agent.handle(t0, agent::Heard{sealed});
  REQUIRE(notes<LogLevel::warning>(begun).size() == 1);
  CHECK(notes<LogLevel::warning>(begun)[0].sentence.find("GLOO_SOCKET_IFNAME=lo: lo (127.0.0.1)") ==
        0);
  agent.handle(t0, agent::FromWorker{supervisor::Started{LocalRank{0}, 100}});
  const auto ended =
      agent.handle(t0, agent::FromWorker{supervisor::Exited{LocalRank{0}, {false, 1}, WallTime{}}});
  REQUIRE(all<agent::Examine>(ended).size() == 1);
  CHECK(all<agent::Examine>(ended)[0].unreachable_interface ==
        notes<LogLevel::warning>(begun)[0].sentence);
}

TEST_CASE(
    "a master whose name is loopback gives its workers an interface that reaches the other nodes") {
  AgentFacts here = facts(true);
  here.interfaces[1].networks = {"10.0.0.2/24"};
  Agent agent(two_nodes(), here);
  agent.start(t0);
  agent.handle(t0, agent::LinkUp{"127.0.0.1", {"127.0.1.1"}});
  link::Sealed sealed = seat();
  sealed.neighbour = {"10.0.0.9"};
  const auto prepared = all<agent::Prepare>(agent.handle(t0, agent::Heard{sealed}));
  REQUIRE(prepared.size() == 1);
  CHECK(prepared[0].specs[0].variables.at("GLOO_SOCKET_IFNAME") == "eth0");
}

TEST_CASE("only the coordinator's host checks after a minute whether the store is used") {
  Stage stage{true};
  stage.run();
  CHECK(all<agent::ProbeWorld>(stage.agent.advance(t0 + 59s)).empty());
  REQUIRE(all<agent::ProbeWorld>(stage.agent.advance(t0 + 60s)).size() == 1);
  const auto reported = stage.agent.handle(t0 + 60s, agent::WorldSeen{{.spawned = {"pid 7"}}});
  REQUIRE(notes<LogLevel::warning>(reported).size() == 1);
  CHECK(notes<LogLevel::warning>(reported)[0].sentence.find("no worker has contacted the store") ==
        0);
  CHECK(all<agent::ProbeWorld>(stage.agent.advance(t0 + 24h)).empty());
  Stage other;
  other.run();
  other.answered(t0 + 60s);
  CHECK(all<agent::ProbeWorld>(other.agent.advance(t0 + 60s)).empty());
}

TEST_CASE("no self-launch is suspected after a drain, or once the store was used") {
  Stage stage{true};
  stage.run();
  SUBCASE("drained") {
    stage.heard(t0 + 1s, link::Drain{first, "rank 1 failed"});
    CHECK(all<agent::ProbeWorld>(stage.agent.advance(t0 + 60s)).empty());
  }
  SUBCASE("the store was used") {
    REQUIRE(all<agent::ProbeWorld>(stage.agent.advance(t0 + 60s)).size() == 1);
    CHECK(stage.agent.handle(t0 + 60s, agent::WorldSeen{{.store_asked = true}}).empty());
    CHECK(all<agent::ProbeWorld>(stage.agent.advance(t0 + 70s)).empty());
  }
}

// The other tests check them after every step, and the faults planted in tests/sim show that the
// check can fail.
TEST_CASE("an agent's invariants hold from its first dial to its exit") {
  Stage stage;
  CHECK_FALSE(stage.agent.check());
  stage.run();
  CHECK_FALSE(stage.agent.check());
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  CHECK_FALSE(stage.agent.check());
  stage.agent.handle(t0 + 2s, agent::LinkUp{"10.0.0.2"});
  stage.heard(t0 + 2s, link::Drain{first, "a node is lost"});
  CHECK(said<link::Drained>(stage.end_worker(t0 + 3s, {true, SIGTERM})).size() == 1);
  stage.heard(t0 + 4s, seat(second));
  stage.worker(t0 + 4s, supervisor::Started{LocalRank{0}, 101});
  stage.end_worker(t0 + 5s, {});
  stage.heard(t0 + 6s, link::Finish{.reason = "every worker finished"});
  CHECK_FALSE(stage.agent.check());
}

namespace {

Config independent() {
  Config config = two_nodes();
  config.restarts = {.max = 3, .scope = RestartScope::worker};
  return config;
}

link::Sealed confirmed_seat() {
  link::Sealed sealed = seat();
  sealed.restarts_workers = true;
  return sealed;
}

}  // namespace

TEST_CASE("a failed worker is restarted when the coordinator answers, with the job's count") {
  Stage stage(false, independent());
  stage.join();
  stage.heard(t0, confirmed_seat());
  stage.worker(t0, supervisor::Started{LocalRank{0}, 100});
  auto failed = stage.worker(t0 + 1s, supervisor::Exited{LocalRank{0}, {false, 3}, WallTime{}});
  stage.examine_all(t0 + 1s, failed);
  CHECK(said<link::Failed>(failed).size() == 1);
  CHECK(all<supervisor::Draining>(failed).empty());
  stage.worker(t0 + 1s, supervisor::GroupGone{LocalRank{0}});
  // On a new link it is said again, until the answer is here.
  stage.agent.handle(t0 + 1s, agent::LinkDown{"reset"});
  CHECK(said<link::Failed>(stage.agent.handle(t0 + 1s, agent::LinkUp{"10.0.0.2"})).size() == 1);
  const link::RestartWorker answer{
      .round = first, .rank = Rank{1}, .attempt = 1, .restart_count = 2, .reason = "2 of 3"};
  const auto restarted = stage.heard(t0 + 2s, answer);
  REQUIRE(work<supervisor::Spawn>(restarted).size() == 1);
  CHECK(work<supervisor::Spawn>(restarted)[0].spec.variables.at("TORCHELASTIC_RESTART_COUNT") ==
        "2");
  CHECK(work<supervisor::Spawn>(stage.heard(t0 + 2s, answer)).empty());
  stage.agent.handle(t0 + 2s, agent::LinkDown{"reset"});
  CHECK(said<link::Failed>(stage.agent.handle(t0 + 2s, agent::LinkUp{"10.0.0.2"})).empty());
  // A repeated answer to the first failure is none to the second.
  stage.worker(t0 + 2s, supervisor::Started{LocalRank{0}, 101});
  auto again = stage.worker(t0 + 3s, supervisor::Exited{LocalRank{0}, {false, 3}, WallTime{}});
  stage.examine_all(t0 + 3s, again);
  REQUIRE(said<link::Failed>(again).size() == 1);
  CHECK(said<link::Failed>(again)[0].attempt == 1);
  stage.worker(t0 + 3s, supervisor::GroupGone{LocalRank{0}});
  stage.heard(t0 + 3s, answer);
  stage.agent.handle(t0 + 3s, agent::LinkDown{"reset"});
  CHECK(said<link::Failed>(stage.agent.handle(t0 + 3s, agent::LinkUp{"10.0.0.2"})).size() == 1);
}

TEST_CASE("a restart of a worker is ignored for another round or rank, and during a drain") {
  Stage stage(false, independent());
  stage.join();
  stage.heard(t0, confirmed_seat());
  stage.worker(t0, supervisor::Started{LocalRank{0}, 100});
  auto failed = stage.worker(t0, supervisor::Exited{LocalRank{0}, {false, 3}, WallTime{}});
  stage.examine_all(t0, failed);
  stage.worker(t0, supervisor::GroupGone{LocalRank{0}});
  const auto spawns = [&](RoundNumber round, int rank) {
    return work<supervisor::Spawn>(
               stage.heard(t0, link::RestartWorker{.round = round, .rank = Rank{rank}}))
        .size();
  };
  CHECK(spawns(second, 1) == 0);
  CHECK(spawns(first, 0) == 0);
  CHECK(spawns(first, 2) == 0);
  stage.heard(t0, link::Drain{first, "rank 0 failed"});
  CHECK(spawns(first, 1) == 0);
}

TEST_CASE("a coordinator that does not know --restart-scope=worker ends the node before it runs") {
  Stage stage(false, independent());
  stage.join();
  const auto refused = stage.agent.handle(t0, agent::Heard{seat()});
  CHECK(said<link::Leave>(refused).size() == 1);
  CHECK(work<supervisor::Spawn>(refused).empty());
  REQUIRE(all<events::JobEnded>(refused).size() == 1);
  CHECK(all<events::JobEnded>(refused)[0].exit_code == 1);
  CHECK(all<events::JobEnded>(refused)[0].reason ==
        "the master at 10.0.0.1:29500 runs a version of cpprun that does not support "
        "--restart-scope=worker\n  hint: use the same version on every node, or "
        "--restart-scope=job");
}

}  // namespace agent_test
