// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/supervisor.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <csignal>

#include "launcher/workers/bounds.h"

namespace supervisor_test {

using namespace cpprun;
using namespace cpprun::supervisor;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr LocalRank first{0};
constexpr LocalRank second{1};

std::vector<WorkerSpec> two_workers() {
  WorkerSpec a;
  a.local_rank = first;
  a.rank = Rank{4};
  WorkerSpec b;
  b.local_rank = second;
  b.rank = Rank{5};
  return {a, b};
}

using Actions = Supervisor::Actions;
constexpr link::ExitStatus ended_well{};
constexpr link::ExitStatus code_3{.signalled = false, .value = 3};
constexpr link::ExitStatus by_term{.signalled = true, .value = SIGTERM};
constexpr link::ExitStatus by_kill{.signalled = true, .value = SIGKILL};

// A supervisor whose two workers run, as pids 100 and 101.
Supervisor running(EndPolicy policy = {.grace = 30s}) {
  Supervisor supervisor(two_workers(), policy);
  static_cast<void>(supervisor.start(t0));
  static_cast<void>(supervisor.handle(t0, Started{first, 100}));
  static_cast<void>(supervisor.handle(t0, Started{second, 101}));
  return supervisor;
}

Outcome outcome(LocalRank local_rank, link::ExitStatus status, int our_signal) {
  Outcome result;
  result.local_rank = local_rank;
  result.rank = Rank{4 + local_rank.value};
  result.pid = 100 + local_rank.value;
  result.status = status;
  result.our_signal = our_signal;
  return result;
}

// A process started by a worker.
TreeProcess started_by(int parent, int pid, int session = 0) {
  return {.pid = pid,
          .started = 7,
          .parent = parent,
          .group = session,
          .session = session,
          .command = "loader"};
}

template <class A>
std::vector<A> only(const Actions& actions) {
  std::vector<A> found;
  for (const auto& action : actions) {
    if (const auto* one = std::get_if<A>(&action)) found.push_back(*one);
  }
  return found;
}

using Signals = std::vector<SignalProcess>;

constexpr EndPolicy alone{.grace = 30s, .restart_scope = RestartScope::worker};

// Both workers have ended with 0.
Supervisor lingering(Stragglers stragglers) {
  auto supervisor = running({.grace = 30s, .stragglers = stragglers});
  static_cast<void>(supervisor.handle(t0, Exited{first, ended_well}));
  CHECK(supervisor.handle(t0, Exited{second, ended_well}) == Actions{WatchTree{}});
  return supervisor;
}

}  // namespace

TEST_CASE("every worker is spawned at the start, in order of local rank") {
  Supervisor supervisor(two_workers(), {.grace = 30s});
  CHECK(supervisor.start(t0) == Actions{Spawn{two_workers()[0]}, Spawn{two_workers()[1]}});
  CHECK_FALSE(supervisor.next_deadline());
}

TEST_CASE("workers that all exit with 0 finish without a failure") {
  auto supervisor = running();
  CHECK(supervisor.handle(t0, Exited{first, ended_well}).empty());
  CHECK(supervisor.handle(t0 + 1s, Exited{second, ended_well}) == Actions{WatchTree{}});
  CHECK(supervisor.handle(t0 + 1s, TreeSeen{}) == Actions{Sweep{first}, Sweep{second}});
  CHECK(supervisor.handle(t0 + 1s, GroupGone{first}).empty());
  CHECK(supervisor.handle(t0 + 1s, GroupGone{second}) == Actions{SweepNode{}});
  CHECK(supervisor.handle(t0 + 1s, NodeSwept{}) ==
        Actions{Finished{{outcome(first, ended_well, 0), outcome(second, ended_well, 0)}, {}, ""}});
  CHECK(supervisor.finished());
}

TEST_CASE("the first failure is reported at once and the other workers are stopped") {
  auto supervisor = running();
  CHECK(supervisor.handle(t0, Exited{second, code_3}) ==
        Actions{Failed{outcome(second, code_3, 0)}, Draining{"rank 5 failed", SIGTERM}, WatchTree{},
                SignalMain{first, SIGTERM}, Sweep{second}});
  static_cast<void>(supervisor.advance(t0 + 1s));
  CHECK(supervisor.next_deadline() == t0 + 30s);
}

TEST_CASE("a worker that ends because it was stopped is a consequence, not a second failure") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Exited{second, code_3}));
  static_cast<void>(supervisor.handle(t0, GroupGone{second}));
  CHECK(supervisor.handle(t0 + 1s, Exited{first, by_term}) == Actions{WatchTree{}});
  CHECK(supervisor.handle(t0 + 1s, TreeSeen{}) == Actions{Sweep{first}});
  CHECK(supervisor.handle(t0 + 1s, GroupGone{first}) == Actions{SweepNode{}});
  CHECK(supervisor.handle(t0 + 1s, NodeSwept{}) ==
        Actions{Finished{{outcome(first, by_term, SIGTERM), outcome(second, code_3, 0)},
                         outcome(second, code_3, 0),
                         "rank 5 failed"}});
}

TEST_CASE("a worker that outlives the grace is killed") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Exited{second, code_3}));
  static_cast<void>(supervisor.advance(t0 + 29s));
  CHECK(supervisor.advance(t0 + 30s) == Actions{Killing{first}, SignalGroup{first, SIGKILL}});
  CHECK(supervisor.handle(t0 + 30s, Exited{first, by_kill}) == Actions{Sweep{first}});
}

TEST_CASE("before KILL, workers that outlive the grace may show their stacks") {
  auto supervisor = running({.grace = 30s, .dumps_stacks = true});
  static_cast<void>(supervisor.handle(t0, Exited{second, code_3}));
  static_cast<void>(supervisor.advance(t0 + 29s));
  CHECK(supervisor.advance(t0 + 30s) == Actions{DumpStack{first}});
  CHECK(supervisor.next_deadline() == t0 + 30s + stack_dump_pause);
  SUBCASE("and are killed") {
    CHECK(supervisor.advance(t0 + 31s) == Actions{Killing{first}, SignalGroup{first, SIGKILL}});
  }
  SUBCASE("or exit by themselves") {
    CHECK(only<Killing>(supervisor.handle(t0 + 30s, Exited{first, by_term})).empty());
    CHECK(only<DumpStack>(supervisor.advance(t0 + 31s)).empty());
  }
  SUBCASE("or are killed at once, on a second request") {
    CHECK(only<SignalGroup>(supervisor.handle(t0 + 30s, Insist{"again"})).size() == 1);
  }
}

TEST_CASE("a second request to stop kills at once, without a stack") {
  auto supervisor = running({.grace = 30s, .dumps_stacks = true});
  static_cast<void>(supervisor.handle(t0, Stop{"asked to", SIGINT}));
  const auto killed = supervisor.handle(t0 + 1s, Insist{"again"});
  CHECK(only<DumpStack>(killed).empty());
  CHECK(only<SignalGroup>(killed).size() == 2);
}

TEST_CASE("a grace of zero kills at the next deadline, which is now") {
  auto supervisor = running({.grace = 0s});
  static_cast<void>(supervisor.handle(t0, Stop{"asked to", SIGINT}));
  CHECK(supervisor.next_deadline() == t0);
  CHECK(supervisor.advance(t0) == Actions{Killing{first}, SignalGroup{first, SIGKILL},
                                          Killing{second}, SignalGroup{second, SIGKILL}});
}

TEST_CASE("Stop forwards its own signal, and a worker ended by it has not failed") {
  auto supervisor = running();
  CHECK(supervisor.handle(t0, Stop{"SIGINT was received", SIGINT}) ==
        Actions{Draining{"SIGINT was received", SIGINT}, WatchTree{}, SignalMain{first, SIGINT},
                SignalMain{second, SIGINT}});
  CHECK(supervisor.handle(t0, Exited{first, code_3}).empty());
  CHECK(supervisor.handle(t0, Stop{"again", SIGTERM}).empty());
}

TEST_CASE("Insist kills at once, whether or not a drain had begun") {
  auto draining = running();
  static_cast<void>(draining.handle(t0, Stop{"asked", SIGTERM}));
  CHECK(draining.handle(t0 + 1s, Insist{"asked twice"}) ==
        Actions{Killing{first, true}, SignalGroup{first, SIGKILL}, Killing{second, true},
                SignalGroup{second, SIGKILL}});
  auto fresh = running();
  CHECK(fresh.handle(t0, Insist{"asked twice"}).front() ==
        Supervisor::Action{Draining{"asked twice", SIGKILL}});
}

TEST_CASE("a worker that cannot be started is the first failure and the others are stopped") {
  Supervisor supervisor(two_workers(), {.grace = 30s});
  static_cast<void>(supervisor.start(t0));
  static_cast<void>(supervisor.handle(t0, Started{first, 100}));
  const auto actions =
      supervisor.handle(t0, SpawnFailed{second, {SpawnStage::exec, ENOENT}, WallTime{}});
  REQUIRE(actions.size() == 4);
  const auto& failed = std::get<Failed>(actions[0]).outcome;
  CHECK(failed.status == link::ExitStatus{false, 127});
  CHECK(failed.pid == 0);
  CHECK(actions[3] == Supervisor::Action{SignalMain{first, SIGTERM}});
}

TEST_CASE("a worker that starts during a drain is signalled at once") {
  Supervisor supervisor(two_workers(), {.grace = 30s});
  static_cast<void>(supervisor.start(t0));
  static_cast<void>(supervisor.handle(t0, Stop{"asked", SIGHUP}));
  CHECK(supervisor.handle(t0, Started{first, 100}) == Actions{SignalMain{first, SIGHUP}});
}

TEST_CASE("the supervisor does not finish while a process group still exists") {
  auto supervisor = running({.grace = 30s, .stragglers = Stragglers::kill});
  CHECK(supervisor.handle(t0, Exited{first, ended_well}) == Actions{Sweep{first}});
  CHECK(supervisor.handle(t0, Exited{second, ended_well}) == Actions{Sweep{second}});
  CHECK(supervisor.handle(t0, GroupGone{first}).empty());
  CHECK_FALSE(supervisor.finished());
  CHECK(supervisor.next_deadline() == t0 + bounds::kill_timeout);
}

TEST_CASE("a worker that survives KILL is given up and reported") {
  auto supervisor = running({.grace = 1s});
  static_cast<void>(supervisor.handle(t0, Stop{"asked", SIGTERM}));
  static_cast<void>(supervisor.advance(t0 + 1s));
  static_cast<void>(supervisor.handle(t0 + 1s, Exited{first, by_kill}));
  static_cast<void>(supervisor.handle(t0 + 1s, GroupGone{first}));
  CHECK(supervisor.advance(t0 + 1s + bounds::kill_timeout) == Actions{SweepNode{}});
  const auto actions = supervisor.advance(t0 + 1s + 2 * bounds::kill_timeout);
  REQUIRE(actions.size() == 1);
  const auto& outcomes = std::get<Finished>(actions[0]).outcomes;
  CHECK_FALSE(outcomes[0].given_up);
  CHECK(outcomes[1].given_up);
}

TEST_CASE("descendants that survive KILL are waited for with a limit, and reported") {
  auto supervisor = running();
  for (const LocalRank rank : {first, second}) {
    static_cast<void>(supervisor.handle(t0, Exited{rank, ended_well}));
  }
  static_cast<void>(supervisor.handle(t0, TreeSeen{}));
  for (const LocalRank rank : {first, second}) {
    static_cast<void>(supervisor.handle(t0, GroupGone{rank}));
  }
  CHECK(supervisor.advance(t0 + bounds::kill_timeout - 1ns).empty());
  const auto actions = supervisor.advance(t0 + bounds::kill_timeout);
  REQUIRE(actions.size() == 1);
  CHECK(std::get<Finished>(actions[0]).unswept);
  CHECK_FALSE(std::get<Finished>(actions[0]).outcomes[0].given_up);
}

TEST_CASE("events after the end are ignored") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Exited{first, ended_well}));
  static_cast<void>(supervisor.handle(t0, Exited{second, ended_well}));
  static_cast<void>(supervisor.handle(t0, TreeSeen{}));
  static_cast<void>(supervisor.handle(t0, GroupGone{first}));
  static_cast<void>(supervisor.handle(t0, GroupGone{second}));
  static_cast<void>(supervisor.handle(t0, NodeSwept{}));
  CHECK(supervisor.handle(t0, Stop{"late", SIGTERM}).empty());
  CHECK(supervisor.handle(t0, Exited{first, code_3}).empty());
  CHECK(supervisor.advance(t0 + 1h).empty());
  CHECK_FALSE(supervisor.next_deadline());
}

TEST_CASE("a forwarded signal does not count as a stop") {
  auto supervisor = running();
  CHECK(supervisor.handle(t0, Forward{10}) ==
        Actions{SignalGroup{first, 10}, SignalGroup{second, 10}});
  const auto failed = supervisor.handle(t0, Exited{first, {true, 10}, WallTime{}});
  REQUIRE(std::holds_alternative<Failed>(failed[0]));
  CHECK(std::get<Failed>(failed[0]).outcome.our_signal == 0);
}

TEST_CASE("a signal for the workers reaches the running ones, and none that is being stopped") {
  auto supervisor = running();
  CHECK(supervisor.handle(t0, Deliver{10}) ==
        Actions{SignalWorker{first, 10}, SignalWorker{second, 10}});
  supervisor.handle(t0, Stop{"enough", SIGTERM});
  CHECK(supervisor.handle(t0, Deliver{10}).empty());
}

// --- the process trees ---------------------------------------------------------------------------

TEST_CASE("the signal goes down a process tree one generation after the other") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Stop{"asked", SIGINT}));
  // The worker with pid 100 is a shell, 300 its trainer, 301 and 302 the trainer's loaders.
  const auto trainer = started_by(100, 300);
  const auto loader = started_by(300, 301);
  const auto other = started_by(300, 302);
  CHECK(supervisor.handle(t0, TreeSeen{{trainer, loader, other}}).empty());
  CHECK(only<SignalProcess>(supervisor.handle(t0 + 1s, Exited{first, {true, SIGINT}})) ==
        Signals{{300, 7, SIGINT}});
  // One loader exits first: the other one still has a parent.
  CHECK(supervisor.handle(t0 + 2s, TreeSeen{{trainer, other}}).empty());
  CHECK(supervisor.handle(t0 + 3s, TreeSeen{{other}}) == Actions{SignalProcess{302, 7, SIGINT}});
  CHECK(supervisor.handle(t0 + 4s, TreeSeen{}).empty());
  CHECK(supervisor.handle(t0 + 4s, Exited{second, {true, SIGINT}}) == Actions{WatchTree{}});
  CHECK(supervisor.handle(t0 + 4s, TreeSeen{}) == Actions{Sweep{first}, Sweep{second}});
}

TEST_CASE("a wrapper that waits after the signal passes it on, a busy parent does not") {
  auto supervisor = running({.grace = 30s});
  static_cast<void>(supervisor.handle(t0, Stop{"asked", SIGINT}));
  // The worker with pid 100 is a shell, 300 a shell below it, 301 its trainer, 302 a loader.
  auto inner = started_by(100, 300);
  auto trainer = started_by(300, 301);
  const auto loader = started_by(301, 302);
  inner.is_waited_for = trainer.is_waited_for = true;
  const TreeSeen seen{{inner, trainer, loader}};
  CHECK(supervisor.handle(t0, seen).empty());
  CHECK(supervisor.handle(t0 + 1900ms, seen).empty());
  SUBCASE("one generation per scan") {
    CHECK(supervisor.handle(t0 + 2s, seen) == Actions{SignalProcess{300, 7, SIGINT}});
    CHECK(supervisor.handle(t0 + 2500ms, seen) == Actions{SignalProcess{301, 7, SIGINT}});
    CHECK(supervisor.handle(t0 + 20s, seen).empty());
  }
  SUBCASE("a process started since the drain began is part of it") {
    auto upload = started_by(100, 400);
    upload.is_waited_for = true;
    CHECK(supervisor.handle(t0 + 2s, TreeSeen{{inner, trainer, loader, upload}}).empty());
    CHECK(supervisor.handle(t0 + 3s, seen) == Actions{SignalProcess{300, 7, SIGINT}});
  }
  SUBCASE("it waits no longer") {
    inner.is_waited_for = false;
    CHECK(supervisor.handle(t0 + 5s, TreeSeen{{inner, trainer, loader}}).empty());
  }
}

TEST_CASE("a worker's children keep the whole grace after the worker has exited") {
  for (const auto scope : {SignalScope::process, SignalScope::group}) {
    auto supervisor = running({.grace = 30s, .scope = scope});
    const auto trainer = started_by(100, 300, 100);
    static_cast<void>(supervisor.handle(t0, Stop{"asked", SIGTERM}));
    static_cast<void>(supervisor.handle(t0, TreeSeen{{trainer}}));
    CHECK(only<Sweep>(supervisor.handle(t0, Exited{first, by_term})).empty());
    CHECK(only<Sweep>(supervisor.handle(t0, Exited{second, by_term})).empty());
    CHECK(supervisor.handle(t0, TreeSeen{{trainer}}).empty());
    CHECK(only<StillEnding>(supervisor.advance(t0 + 1s)) ==
          std::vector{StillEnding{.ranks = {}, .others = 1, .left = 29s}});
    CHECK(supervisor.next_deadline() == t0 + 30s);
    CHECK(supervisor.advance(t0 + 30s) ==
          Actions{Leftover{Leftover::Fate::killed, {trainer}}, Sweep{first}, Sweep{second}});
  }
}

TEST_CASE("a process that reads another's output is signalled after that process has exited") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Stop{"asked", SIGTERM}));
  // bash -c 'python train.py | tee log'
  auto trainer = started_by(100, 300);
  auto tee = started_by(100, 301);
  trainer.out_pipe = tee.in_pipe = 4711;
  static_cast<void>(supervisor.handle(t0, TreeSeen{{trainer, tee}}));
  CHECK(supervisor.handle(t0, Exited{first, by_term}) == Actions{SignalProcess{300, 7, SIGTERM}});
  CHECK(supervisor.handle(t0, TreeSeen{{tee}}) == Actions{SignalProcess{301, 7, SIGTERM}});
}

TEST_CASE("a process started after the drain began is sent nothing before KILL") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Stop{"asked", SIGTERM}));
  static_cast<void>(supervisor.handle(t0, TreeSeen{}));
  static_cast<void>(supervisor.handle(t0, Exited{second, by_term}));
  static_cast<void>(supervisor.handle(t0 + 1s, Exited{first, by_term}));
  CHECK(supervisor.handle(t0 + 1s, TreeSeen{{started_by(1, 300, 100)}}).empty());
  CHECK_FALSE(supervisor.finished());
}

TEST_CASE("a pid that belongs to another process by now is sent nothing") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Stop{"asked", SIGTERM}));
  static_cast<void>(supervisor.handle(t0, TreeSeen{{started_by(100, 300)}}));
  auto reused = started_by(1, 300);
  reused.started = 8;
  static_cast<void>(supervisor.handle(t0, TreeSeen{{reused}}));
  CHECK(only<SignalProcess>(supervisor.handle(t0, Exited{first, by_term})).empty());
}

TEST_CASE("a process without a parent belongs to the worker of its session, else to all workers") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Stop{"asked", SIGTERM}));
  static_cast<void>(
      supervisor.handle(t0, TreeSeen{{started_by(1, 300, 100), started_by(1, 301, 301)}}));
  CHECK(only<SignalProcess>(supervisor.handle(t0, Exited{first, by_term})) ==
        Signals{{300, 7, SIGTERM}});
  CHECK(only<SignalProcess>(supervisor.handle(t0, Exited{second, by_term})) ==
        Signals{{301, 7, SIGTERM}});
}

TEST_CASE("with --signal-scope=group the whole group gets the signal at once, and nothing later") {
  auto supervisor = running({.grace = 30s, .scope = SignalScope::group});
  CHECK(supervisor.handle(t0, Stop{"asked", SIGTERM}) ==
        Actions{Draining{"asked", SIGTERM}, WatchTree{}, SignalGroup{first, SIGTERM},
                SignalGroup{second, SIGTERM}});
  // A session of its own is out of the group, and is not waited for.
  const auto daemon = started_by(100, 300, 300);
  static_cast<void>(supervisor.handle(t0, TreeSeen{{daemon}}));
  CHECK(supervisor.handle(t0, Exited{first, by_term}).empty());
  CHECK(supervisor.handle(t0, Exited{second, by_term}) == Actions{WatchTree{}});
  CHECK(supervisor.handle(t0, TreeSeen{{daemon}}) == Actions{Sweep{first}, Sweep{second}});
}

TEST_CASE("a failed worker's children are killed at once, but not after an outside signal") {
  auto failed = running();
  CHECK(only<Sweep>(failed.handle(t0, Exited{first, code_3})) == std::vector{Sweep{first}});
  auto ended = running();
  CHECK(only<Sweep>(ended.handle(t0, Exited{first, by_term})).empty());
  CHECK(ended.handle(t0, TreeSeen{{started_by(1, 300, 100)}}) ==
        Actions{SignalProcess{300, 7, SIGTERM}});
}

TEST_CASE("workers that are still running are reported once, a second after the signal") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Stop{"asked", SIGINT}));
  static_cast<void>(supervisor.handle(t0, Exited{first, by_term}));
  CHECK(supervisor.next_deadline() == t0 + 1s);
  CHECK(supervisor.advance(t0 + 1s) == Actions{StillEnding{.ranks = {Rank{5}}, .left = 29s}});
  CHECK(supervisor.advance(t0 + 2s).empty());
  auto short_grace = running({.grace = 1s});
  static_cast<void>(short_grace.handle(t0, Stop{"asked", SIGINT}));
  CHECK(only<StillEnding>(short_grace.advance(t0 + 1s)).empty());
}

// --- processes that outlive a good exit ----------------------------------------------------------

TEST_CASE("processes that outlive a good exit are named and have the grace, then TERM, then KILL") {
  auto supervisor = lingering(Stragglers::wait);
  const auto copy = started_by(1, 300, 300);
  CHECK(supervisor.handle(t0, TreeSeen{{copy}}) ==
        Actions{Leftover{Leftover::Fate::awaited, {copy}}});
  CHECK(supervisor.handle(t0, TreeSeen{{copy}}).empty());
  CHECK(supervisor.advance(t0 + 30s) ==
        Actions{Leftover{Leftover::Fate::ended, {copy}}, WatchTree{}});
  CHECK(supervisor.handle(t0 + 30s, TreeSeen{{copy}}) == Actions{SignalProcess{300, 7, SIGTERM}});
  const auto last = t0 + 30s + stragglers_end_within;
  CHECK(supervisor.advance(last) == Actions{Sweep{first}, Sweep{second}});
  static_cast<void>(supervisor.handle(last, GroupGone{first}));
  CHECK(supervisor.handle(last, GroupGone{second}) == Actions{SweepNode{}});
  const auto finished = only<Finished>(supervisor.handle(last, NodeSwept{}));
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].drain_reason.empty());
  CHECK_FALSE(finished[0].first_failure);
}

TEST_CASE("the end continues as soon as those processes have exited") {
  auto supervisor = lingering(Stragglers::wait);
  static_cast<void>(supervisor.handle(t0, TreeSeen{{started_by(1, 300, 300)}}));
  CHECK(supervisor.handle(t0 + 2s, TreeSeen{}) == Actions{Sweep{first}, Sweep{second}});
}

TEST_CASE("with --stragglers=leave processes that outlive a good exit are left alone") {
  auto supervisor = lingering(Stragglers::leave);
  const auto copy = started_by(1, 300, 300);
  CHECK(supervisor.handle(t0, TreeSeen{{copy}}) ==
        Actions{Leftover{Leftover::Fate::released, {copy}}, Release{first}, Release{second}});
  static_cast<void>(supervisor.handle(t0, GroupGone{first}));
  CHECK(only<Finished>(supervisor.handle(t0, GroupGone{second})).size() == 1);
}

TEST_CASE("a stop while a leftover process is waited for sends it the signal") {
  auto supervisor = lingering(Stragglers::wait);
  const auto copy = started_by(1, 300, 300);
  static_cast<void>(supervisor.handle(t0, TreeSeen{{copy}}));
  CHECK(supervisor.handle(t0 + 1s, Stop{"asked", SIGINT}) ==
        Actions{Draining{"asked", SIGINT}, WatchTree{}});
  CHECK(supervisor.handle(t0 + 1s, TreeSeen{{copy}}) == Actions{SignalProcess{300, 7, SIGINT}});
  CHECK(supervisor.handle(t0 + 2s, TreeSeen{}) == Actions{Sweep{first}, Sweep{second}});
}

// --- workers that change rounds

namespace {

constexpr RoundNumber round_1{1};
constexpr RoundNumber round_2{2};

// Two workers of round 1, of which `can` can change rounds.
Supervisor reconfigurable(std::vector<LocalRank> can) {
  Supervisor supervisor(two_workers(), {.grace = 30s, .keeps_workers = true});
  static_cast<void>(supervisor.start(t0, round_1));
  static_cast<void>(supervisor.handle(t0, Started{first, 100}));
  static_cast<void>(supervisor.handle(t0, Started{second, 101}));
  for (const LocalRank each : can) static_cast<void>(supervisor.handle(t0, Rejoins{each}));
  return supervisor;
}

// The first of two workers waits for round 2, because the second has failed.
Supervisor waiting() {
  auto supervisor = reconfigurable({first, second});
  static_cast<void>(supervisor.handle(t0, Exited{second, code_3}));
  static_cast<void>(supervisor.handle(t0, GroupGone{second}));
  static_cast<void>(supervisor.handle(t0, Rejoins{first, round_1}));
  static_cast<void>(supervisor.handle(t0, NodeSwept{}));
  CHECK(supervisor.waits());
  return supervisor;
}

}  // namespace

TEST_CASE("a worker that can change rounds survives the failure of another one") {
  auto supervisor = reconfigurable({first, second});
  CHECK(supervisor.handle(t0, Exited{second, code_3}) ==
        Actions{Failed{outcome(second, code_3, 0)}, Leaving{"rank 5 failed", {Rank{4}}},
                LeaveRound{first, round_1}, Sweep{second}});
  CHECK(supervisor.handle(t0, GroupGone{second}).empty());
  // What the failed worker had started goes first.
  CHECK(supervisor.handle(t0 + 1s, Rejoins{first, round_1}) == Actions{SweepNode{}});
  CHECK(supervisor.handle(t0 + 1s, NodeSwept{}) ==
        Actions{Waiting{{outcome(second, code_3, 0)}, outcome(second, code_3, 0)}});
  CHECK(supervisor.waits());
  CHECK_FALSE(supervisor.next_deadline());
  CHECK_FALSE(supervisor.check());
}

TEST_CASE("in the next round it takes its place, and the other one is started again") {
  auto supervisor = waiting();
  auto specs = two_workers();
  specs[0].rank = Rank{0};
  specs[1].rank = Rank{1};
  CHECK(supervisor.resume(t0, round_2, specs) == Actions{TakePlace{specs[0]}, Spawn{specs[1]}});
  CHECK_FALSE(supervisor.waits());
  CHECK_FALSE(supervisor.check());
  // Its failure is one of its new rank.
  const auto failed = only<Failed>(supervisor.handle(t0, Exited{first, code_3}));
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].outcome.rank == Rank{0});
}

TEST_CASE("a process that ignores SIGKILL does not hold up the next round") {
  auto supervisor = reconfigurable({first, second});
  static_cast<void>(supervisor.handle(t0, Break{"rank 0 failed"}));
  for (const LocalRank each : {first, second}) {
    static_cast<void>(supervisor.handle(t0, Rejoins{each, round_1}));
  }
  static_cast<void>(supervisor.handle(t0, NodeSwept{}));
  REQUIRE(supervisor.waits());
  const auto kill_timeout = Duration{bounds::kill_timeout};
  // A worker exits while it waits.
  CHECK(supervisor.handle(t0, Exited{second, code_3}) == Actions{Sweep{second}});
  SUBCASE("it is in the worker's group: the workers are stopped") {
    CHECK(supervisor.resume(t0, round_2, two_workers()) == Actions{TakePlace{two_workers()[0]}});
    CHECK(supervisor.next_deadline() == t0 + kill_timeout);
    const auto drained = only<Draining>(supervisor.advance(t0 + kill_timeout));
    REQUIRE(drained.size() == 1);
    CHECK(drained[0].reason == "a process of the previous rank 5 ignores SIGKILL");
  }
  SUBCASE("it is elsewhere: the worker is started") {
    static_cast<void>(supervisor.handle(t0, GroupGone{second}));
    CHECK(supervisor.resume(t0, round_2, two_workers()) ==
          Actions{TakePlace{two_workers()[0]}, SweepNode{}});
    CHECK(supervisor.next_deadline() == t0 + kill_timeout);
    CHECK(supervisor.advance(t0 + kill_timeout) == Actions{Spawn{two_workers()[1]}});
    CHECK_FALSE(supervisor.next_deadline());
    CHECK(supervisor.handle(t0, NodeSwept{}).empty());
  }
  CHECK_FALSE(supervisor.check());
}

TEST_CASE("a worker that remains keeps the files that it has open") {
  auto supervisor = waiting();
  auto specs = two_workers();
  for (auto& each : specs) each.error_file = "new";
  const auto merged = supervisor.with_files_of_remaining(specs);
  CHECK(merged[0].error_file.empty());
  CHECK(merged[1].error_file == "new");
}

TEST_CASE("a worker that has not left the round within the grace period is killed") {
  auto supervisor = reconfigurable({first, second});
  static_cast<void>(supervisor.handle(t0, Break{"rank 0 failed"}));
  static_cast<void>(supervisor.handle(t0, Rejoins{first, round_1}));
  CHECK(supervisor.advance(t0 + 30s) ==
        Actions{Killing{second, false}, SignalGroup{second, SIGKILL}});
  static_cast<void>(supervisor.handle(t0 + 30s, Exited{second, by_kill}));
  static_cast<void>(supervisor.handle(t0 + 30s, GroupGone{second}));
  CHECK(supervisor.handle(t0 + 30s, NodeSwept{}) ==
        Actions{Waiting{{outcome(second, by_kill, SIGKILL)}, {}}});
}

TEST_CASE("an answer about an earlier round is not the end of this one") {
  auto supervisor = waiting();
  static_cast<void>(supervisor.resume(t0, round_2, two_workers()));
  static_cast<void>(supervisor.handle(t0, Started{second, 102}));
  CHECK(supervisor.handle(t0, Rejoins{second}).empty());
  static_cast<void>(supervisor.handle(t0, Break{"rank 0 failed"}));
  static_cast<void>(supervisor.handle(t0, Rejoins{second, round_2}));
  CHECK(supervisor.handle(t0, Rejoins{first, round_1}).empty());
  CHECK_FALSE(supervisor.waits());
  CHECK(only<Waiting>(supervisor.handle(t0, Rejoins{first, round_2})).size() == 1);
}

TEST_CASE("a worker that cannot change rounds is stopped, and started again in the next one") {
  auto supervisor = reconfigurable({first});
  CHECK(supervisor.handle(t0, Break{"rank 0 failed"}) ==
        Actions{Leaving{"rank 0 failed", {Rank{4}}}, LeaveRound{first, round_1},
                SignalMain{second, SIGTERM}});
  static_cast<void>(supervisor.handle(t0, Rejoins{first, round_1}));
  CHECK(supervisor.handle(t0, Exited{second, by_term}) == Actions{Sweep{second}});
  CHECK(supervisor.handle(t0, GroupGone{second}) == Actions{SweepNode{}});
  CHECK(only<Waiting>(supervisor.handle(t0, NodeSwept{})).size() == 1);
}

TEST_CASE("if no worker can change rounds, a failure stops all of them as usual") {
  auto supervisor = reconfigurable({});
  CHECK(only<Draining>(supervisor.handle(t0, Exited{second, code_3})).size() == 1);
  CHECK(only<Leaving>(reconfigurable({}).handle(t0, Break{"rank 0 failed"})).empty());
}

TEST_CASE("if the last worker that could remain exits, the attempt ends as usual") {
  auto supervisor = reconfigurable({first, second});
  static_cast<void>(supervisor.handle(t0, Exited{second, code_3}));
  static_cast<void>(supervisor.handle(t0, GroupGone{second}));
  static_cast<void>(supervisor.handle(t0, Exited{first, code_3}));
  CHECK(supervisor.handle(t0, GroupGone{first}) == Actions{SweepNode{}});
  const auto finished = only<Finished>(supervisor.handle(t0, NodeSwept{}));
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].outcomes.size() == 2);
}

TEST_CASE("a worker that exits while it waits is started again in the next round, once swept") {
  auto supervisor = waiting();
  CHECK(supervisor.handle(t0, Exited{first, code_3}) == Actions{Sweep{first}});
  const auto specs = two_workers();
  CHECK(supervisor.resume(t0, round_2, specs).empty());
  CHECK(supervisor.handle(t0, GroupGone{first}) == Actions{SweepNode{}});
  CHECK(supervisor.handle(t0, NodeSwept{}) == Actions{Spawn{specs[0]}, Spawn{specs[1]}});
}

TEST_CASE("workers that wait are ended by a stop, and only their exits are reported then") {
  auto supervisor = waiting();
  const auto stopped = supervisor.handle(t0, Stop{"the job is over"});
  CHECK(only<SignalMain>(stopped) == std::vector{SignalMain{first, SIGTERM}});
  static_cast<void>(supervisor.handle(t0, TreeSeen{}));
  static_cast<void>(supervisor.handle(t0, Exited{first, by_term}));
  static_cast<void>(supervisor.handle(t0, TreeSeen{}));
  CHECK(only<SweepNode>(supervisor.handle(t0, GroupGone{first})).size() == 1);
  const auto finished = only<Finished>(supervisor.handle(t0, NodeSwept{}));
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].outcomes == std::vector{outcome(first, by_term, SIGTERM)});
}

TEST_CASE("a hung worker is ended although it could change rounds") {
  auto supervisor = reconfigurable({first, second});
  const auto actions = supervisor.handle(t0, Hung{second, 60s, "rank 5 hangs", WallTime{}});
  CHECK(only<LeaveRound>(actions) == std::vector{LeaveRound{first, round_1}});
  CHECK(only<SignalMain>(actions) == std::vector{SignalMain{second, SIGTERM}});
}

TEST_CASE("while some workers run, the children of exited ones are not touched") {
  auto supervisor = running();
  CHECK(supervisor.handle(t0, Exited{first, ended_well}).empty());
  CHECK_FALSE(supervisor.next_deadline());
}

TEST_CASE("with RestartScope::worker a failure is reported and the other workers run on") {
  auto supervisor = running(alone);
  CHECK(supervisor.handle(t0, Exited{second, code_3}) ==
        Actions{Failed{outcome(second, code_3, 0)}, Sweep{second}});
  CHECK(supervisor.handle(t0, GroupGone{second}).empty());
  CHECK_FALSE(supervisor.next_deadline());
  CHECK_FALSE(supervisor.check());
  // The exit of the other one does not end the attempt: a restart may follow.
  CHECK(supervisor.handle(t0 + 1s, Exited{first, ended_well}).empty());
  CHECK(supervisor.handle(t0 + 2s, Restart{.spec = two_workers()[1]}) ==
        Actions{Spawn{two_workers()[1]}});
  static_cast<void>(supervisor.handle(t0 + 2s, Started{second, 102}));
  CHECK(supervisor.handle(t0 + 3s, Exited{second, ended_well}) == Actions{WatchTree{}});
}

TEST_CASE("a worker is restarted after the pause, once none of its processes is left") {
  auto supervisor = running(alone);
  static_cast<void>(supervisor.handle(t0, Exited{second, code_3}));
  CHECK(supervisor.handle(t0, Restart{.spec = two_workers()[1], .pause = 2s}).empty());
  CHECK(supervisor.advance(t0 + 2s).empty());  // its group is not gone
  CHECK(supervisor.handle(t0 + 3s, GroupGone{second}) == Actions{Spawn{two_workers()[1]}});

  auto paused = running(alone);
  static_cast<void>(paused.handle(t0, Exited{second, code_3}));
  static_cast<void>(paused.handle(t0, GroupGone{second}));
  CHECK(paused.handle(t0, Restart{.spec = two_workers()[1], .pause = 2s}).empty());
  CHECK(paused.next_deadline() == t0 + 2s);
  CHECK(paused.advance(t0 + 2s) == Actions{Spawn{two_workers()[1]}});
  CHECK_FALSE(paused.next_deadline());
}

TEST_CASE("a worker that runs is not restarted") {
  auto supervisor = running(alone);
  CHECK(supervisor.handle(t0, Restart{.spec = two_workers()[1]}).empty());
  static_cast<void>(supervisor.handle(t0, Exited{second, ended_well}));
  CHECK(supervisor.handle(t0, Restart{.spec = two_workers()[1]}).empty());
}

TEST_CASE("while the seat is in doubt no worker is restarted") {
  auto supervisor = running(alone);
  static_cast<void>(supervisor.handle(t0, Exited{second, code_3}));
  static_cast<void>(supervisor.handle(t0, GroupGone{second}));
  CHECK(supervisor.handle(t0, Hold{true}).empty());
  CHECK(supervisor.handle(t0, Restart{.spec = two_workers()[1]}).empty());
  CHECK_FALSE(supervisor.next_deadline());
  CHECK(supervisor.handle(t0 + 1s, Hold{false}) == Actions{Spawn{two_workers()[1]}});
}

TEST_CASE("a stop ends the others and forgets the restart, even if no worker is left") {
  auto supervisor = running(alone);
  static_cast<void>(supervisor.handle(t0, Exited{second, code_3}));
  static_cast<void>(supervisor.handle(t0, GroupGone{second}));
  static_cast<void>(supervisor.handle(t0, Restart{.spec = two_workers()[1], .pause = 9s}));
  CHECK(supervisor.handle(t0, Stop{"no restart is left"}) ==
        Actions{Draining{"no restart is left", SIGTERM}, WatchTree{}, SignalMain{first, SIGTERM}});
  CHECK(supervisor.handle(t0, Restart{.spec = two_workers()[1]}).empty());
  CHECK_FALSE(supervisor.check());

  auto alike = running(alone);
  for (const LocalRank each : {first, second}) {
    static_cast<void>(alike.handle(t0, Exited{each, code_3}));
    static_cast<void>(alike.handle(t0, GroupGone{each}));
  }
  CHECK(alike.handle(t0, Stop{"no restart is left"}) ==
        Actions{Draining{"no restart is left", SIGTERM}, WatchTree{}, WatchTree{}});
  CHECK(alike.handle(t0, TreeSeen{}) == Actions{SweepNode{}});
  const auto finished = only<Finished>(alike.handle(t0, NodeSwept{}));
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].outcomes[1] == outcome(second, code_3, 0));
}

TEST_CASE("a stop when one worker exited with 0 and another one failed needs no grace period") {
  auto supervisor = running(alone);
  static_cast<void>(supervisor.handle(t0, Exited{first, ended_well}));
  static_cast<void>(supervisor.handle(t0, Exited{second, code_3}));
  static_cast<void>(supervisor.handle(t0, GroupGone{second}));
  static_cast<void>(supervisor.handle(t0, Stop{"no restart is left"}));
  CHECK(supervisor.handle(t0, TreeSeen{}) == Actions{Sweep{first}});
  CHECK(supervisor.handle(t0, GroupGone{first}) == Actions{SweepNode{}});
  CHECK(only<Finished>(supervisor.handle(t0, NodeSwept{})).size() == 1);
}

TEST_CASE("a worker that hangs is ended alone: the signal, the grace period, KILL, the drain") {
  auto supervisor = running(alone);
  CHECK(supervisor.handle(t0 + 20s, Hung{.local_rank = second, .quiet = 20s, .verdict = "v"})
            .back() == supervisor::Action{SignalMain{second, SIGTERM}});
  CHECK(supervisor.workers()[0].state == WorkerState::running);
  CHECK(supervisor.handle(t0 + 21s, Hung{.local_rank = second, .quiet = 21s}).empty());
  CHECK(supervisor.advance(t0 + 50s) == Actions{Killing{second}, SignalGroup{second, SIGKILL}});
  // It is stuck in the kernel: the node can only be drained.
  const auto stuck = supervisor.advance(t0 + 50s + bounds::kill_timeout);
  CHECK(only<Draining>(stuck) ==
        std::vector<Draining>{{"rank 5 (pid 101) ignores SIGKILL", SIGTERM}});
}

TEST_CASE("before a worker that hangs is killed, it shows its stack") {
  EndPolicy policy = alone;
  policy.dumps_stacks = true;
  auto supervisor = running(policy);
  static_cast<void>(supervisor.handle(t0, Hung{.local_rank = second, .quiet = 20s}));
  CHECK(supervisor.advance(t0 + 30s) == Actions{DumpStack{second}});
  CHECK(supervisor.next_deadline() == t0 + 30s + stack_dump_pause);
  CHECK(supervisor.advance(t0 + 30s + stack_dump_pause) ==
        Actions{Killing{second}, SignalGroup{second, SIGKILL}});
  CHECK(supervisor.handle(t0 + 31s, Exited{second, by_kill}) == Actions{Sweep{second}});
}

TEST_CASE("what a hung worker has started gets the signal after it, and the grace period") {
  auto supervisor = running(alone);
  CHECK(supervisor.handle(t0, Hung{.local_rank = second, .quiet = 20s}) ==
        Actions{Failed{[] {
                  Outcome hung = outcome(second, by_term, 0);
                  hung.hung_for = 20s;
                  return hung;
                }()},
                WatchTree{}, SignalMain{second, SIGTERM}});
  // The wrapper script waits for Python. The process of the other worker is not concerned.
  const TreeProcess python = started_by(101, 301, 101);
  const TreeProcess other = started_by(100, 302, 100);
  CHECK(supervisor.handle(t0, TreeSeen{{python, other}}).empty());
  static_cast<void>(supervisor.handle(t0, Restart{.spec = two_workers()[1]}));
  CHECK(supervisor.handle(t0 + 1s, Exited{second, by_term}) ==
        Actions{WatchTree{}, SignalProcess{301, 7, SIGTERM}});
  CHECK(supervisor.handle(t0 + 2s, TreeSeen{{python, other}}).empty());
  CHECK(supervisor.handle(t0 + 9s, TreeSeen{{other}}) == Actions{Sweep{second}});
  CHECK(supervisor.handle(t0 + 9s, GroupGone{second}) == Actions{Spawn{two_workers()[1]}});
}

TEST_CASE("what a hung worker has started is killed when the grace period is over") {
  auto supervisor = running(alone);
  static_cast<void>(supervisor.handle(t0, Hung{.local_rank = second, .quiet = 20s}));
  const TreeProcess python = started_by(101, 301, 101);
  static_cast<void>(supervisor.handle(t0, TreeSeen{{python}}));
  static_cast<void>(supervisor.handle(t0 + 1s, Exited{second, by_term}));
  static_cast<void>(supervisor.handle(t0 + 1s, TreeSeen{{python}}));
  CHECK(supervisor.next_deadline() == t0 + 30s);
  CHECK(supervisor.advance(t0 + 30s) == Actions{Sweep{second}});
  const auto stuck = supervisor.advance(t0 + 30s + bounds::kill_timeout);
  CHECK(only<Draining>(stuck) == std::vector<Draining>{{"a process of rank 5 (process group 101) "
                                                        "ignores SIGKILL",
                                                        SIGTERM}});
}

TEST_CASE("a worker that was ended because it hung is restarted, whatever its exit code") {
  auto supervisor = running(alone);
  static_cast<void>(supervisor.handle(t0, Hung{.local_rank = second, .quiet = 20s}));
  static_cast<void>(supervisor.handle(t0, Restart{.spec = two_workers()[1]}));
  CHECK(supervisor.handle(t0 + 1s, Exited{second, ended_well}) == Actions{WatchTree{}});
  CHECK(supervisor.handle(t0 + 1s, TreeSeen{}) == Actions{Sweep{second}});
  CHECK(supervisor.handle(t0 + 1s, GroupGone{second}) == Actions{Spawn{two_workers()[1]}});
}

TEST_CASE("a worker that cannot be started is reported, and may be restarted alone") {
  Supervisor supervisor(two_workers(), alone);
  static_cast<void>(supervisor.start(t0));
  static_cast<void>(supervisor.handle(t0, Started{first, 100}));
  const auto failed = supervisor.handle(t0, SpawnFailed{second, {SpawnStage::exec, ENOENT}});
  CHECK(only<Failed>(failed).size() == 1);
  CHECK(only<Draining>(failed).empty());
  CHECK(supervisor.handle(t0, Restart{.spec = two_workers()[1]}) ==
        Actions{Spawn{two_workers()[1]}});
}

}  // namespace supervisor_test
