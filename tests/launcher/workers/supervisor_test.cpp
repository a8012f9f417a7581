// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/supervisor.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <csignal>

#include "proto/bounds.h"

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

TEST_CASE("while some workers run, the children of exited ones are not touched") {
  auto supervisor = running();
  CHECK(supervisor.handle(t0, Exited{first, ended_well}).empty());
  CHECK_FALSE(supervisor.next_deadline());
}

}  // namespace supervisor_test
