// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/supervisor.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <csignal>

#include "proto/bounds.h"

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
Supervisor running(Duration grace = 30s) {
  Supervisor supervisor(two_workers(), grace);
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

}  // namespace

TEST_CASE("every worker is asked for at the start, in order of local rank") {
  Supervisor supervisor(two_workers(), 30s);
  CHECK(supervisor.start(t0) == Actions{Spawn{two_workers()[0]}, Spawn{two_workers()[1]}});
  CHECK_FALSE(supervisor.next_deadline());
}

TEST_CASE("workers that all end with 0 settle without a failure") {
  auto supervisor = running();
  CHECK(supervisor.handle(t0, Exited{first, ended_well}) == Actions{Sweep{first}});
  CHECK(supervisor.handle(t0, GroupGone{first}).empty());
  CHECK(supervisor.handle(t0 + 1s, Exited{second, ended_well}) == Actions{Sweep{second}});
  CHECK(supervisor.handle(t0 + 1s, GroupGone{second}) == Actions{SweepNode{}});
  CHECK(supervisor.handle(t0 + 1s, NodeSwept{}) ==
        Actions{Settled{{outcome(first, ended_well, 0), outcome(second, ended_well, 0)}, {}, ""}});
  CHECK(supervisor.settled());
}

TEST_CASE("the first failure is told at once and the others are asked to end") {
  auto supervisor = running();
  CHECK(supervisor.handle(t0, Exited{second, code_3}) ==
        Actions{Failed{outcome(second, code_3, 0)}, Draining{"rank 5 failed", SIGTERM},
                SignalGroup{first, SIGTERM}, Sweep{second}});
  CHECK(supervisor.next_deadline() == t0 + 30s);
}

TEST_CASE("a worker that ends because we asked is a consequence, not a second failure") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Exited{second, code_3}));
  static_cast<void>(supervisor.handle(t0, GroupGone{second}));
  CHECK(supervisor.handle(t0 + 1s, Exited{first, by_term}) == Actions{Sweep{first}});
  static_cast<void>(supervisor.handle(t0 + 1s, GroupGone{first}));
  CHECK(supervisor.handle(t0 + 1s, NodeSwept{}) ==
        Actions{Settled{{outcome(first, by_term, SIGTERM), outcome(second, code_3, 0)},
                        outcome(second, code_3, 0),
                        "rank 5 failed"}});
}

TEST_CASE("whoever outlives the grace is killed") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Exited{second, code_3}));
  CHECK(supervisor.advance(t0 + 29s).empty());
  CHECK(supervisor.advance(t0 + 30s) == Actions{Killing{first}, SignalGroup{first, SIGKILL}});
  CHECK(supervisor.handle(t0 + 30s, Exited{first, by_kill}) == Actions{Sweep{first}});
}

TEST_CASE("a grace of nothing kills at the next deadline, which is now") {
  auto supervisor = running(0s);
  static_cast<void>(supervisor.handle(t0, Stop{"asked to", SIGINT}));
  CHECK(supervisor.next_deadline() == t0);
  CHECK(supervisor.advance(t0) == Actions{Killing{first}, SignalGroup{first, SIGKILL},
                                          Killing{second}, SignalGroup{second, SIGKILL}});
}

TEST_CASE("Stop passes its own signal on, and a worker ended by it has not failed") {
  auto supervisor = running();
  CHECK(supervisor.handle(t0, Stop{"SIGINT was received", SIGINT}) ==
        Actions{Draining{"SIGINT was received", SIGINT}, SignalGroup{first, SIGINT},
                SignalGroup{second, SIGINT}});
  CHECK(supervisor.handle(t0, Exited{first, code_3}) == Actions{Sweep{first}});
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

TEST_CASE("a worker that cannot be started is the first failure and the others are ended") {
  Supervisor supervisor(two_workers(), 30s);
  static_cast<void>(supervisor.start(t0));
  static_cast<void>(supervisor.handle(t0, Started{first, 100}));
  const auto actions =
      supervisor.handle(t0, SpawnFailed{second, {SpawnStage::exec, ENOENT}, WallTime{}});
  REQUIRE(actions.size() == 3);
  const auto& failed = std::get<Failed>(actions[0]).outcome;
  CHECK(failed.status == link::ExitStatus{false, 127});
  CHECK(failed.pid == 0);
  CHECK(actions[2] == Supervisor::Action{SignalGroup{first, SIGTERM}});
}

TEST_CASE("a worker that starts while the end has begun is told so at once") {
  Supervisor supervisor(two_workers(), 30s);
  static_cast<void>(supervisor.start(t0));
  static_cast<void>(supervisor.handle(t0, Stop{"asked", SIGHUP}));
  CHECK(supervisor.handle(t0, Started{first, 100}) == Actions{SignalGroup{first, SIGHUP}});
}

TEST_CASE("nothing settles while a group is still there") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Exited{first, ended_well}));
  static_cast<void>(supervisor.handle(t0, Exited{second, ended_well}));
  CHECK(supervisor.handle(t0, GroupGone{first}).empty());
  CHECK_FALSE(supervisor.settled());
  CHECK(supervisor.next_deadline() == t0 + bounds::kill_patience);
}

TEST_CASE("what does not die of KILL is given up, and said so") {
  auto supervisor = running(1s);
  static_cast<void>(supervisor.handle(t0, Stop{"asked", SIGTERM}));
  static_cast<void>(supervisor.advance(t0 + 1s));
  static_cast<void>(supervisor.handle(t0 + 1s, Exited{first, by_kill}));
  static_cast<void>(supervisor.handle(t0 + 1s, GroupGone{first}));
  CHECK(supervisor.advance(t0 + 1s + bounds::kill_patience) == Actions{SweepNode{}});
  const auto actions = supervisor.advance(t0 + 1s + 2 * bounds::kill_patience);
  REQUIRE(actions.size() == 1);
  const auto& outcomes = std::get<Settled>(actions[0]).outcomes;
  CHECK_FALSE(outcomes[0].given_up);
  CHECK(outcomes[1].given_up);
}

TEST_CASE("what the workers have started and nobody can kill is waited for no longer, and told") {
  auto supervisor = running();
  for (const LocalRank rank : {first, second}) {
    static_cast<void>(supervisor.handle(t0, Exited{rank, ended_well}));
    static_cast<void>(supervisor.handle(t0, GroupGone{rank}));
  }
  CHECK(supervisor.advance(t0 + bounds::kill_patience - 1ns).empty());
  const auto actions = supervisor.advance(t0 + bounds::kill_patience);
  REQUIRE(actions.size() == 1);
  CHECK(std::get<Settled>(actions[0]).unswept);
  CHECK_FALSE(std::get<Settled>(actions[0]).outcomes[0].given_up);
}

TEST_CASE("what arrives after the end is ignored") {
  auto supervisor = running();
  static_cast<void>(supervisor.handle(t0, Exited{first, ended_well}));
  static_cast<void>(supervisor.handle(t0, GroupGone{first}));
  static_cast<void>(supervisor.handle(t0, Exited{second, ended_well}));
  static_cast<void>(supervisor.handle(t0, GroupGone{second}));
  static_cast<void>(supervisor.handle(t0, NodeSwept{}));
  CHECK(supervisor.handle(t0, Stop{"late", SIGTERM}).empty());
  CHECK(supervisor.handle(t0, Exited{first, code_3}).empty());
  CHECK(supervisor.advance(t0 + 1h).empty());
  CHECK_FALSE(supervisor.next_deadline());
}

TEST_CASE("a signal that is passed on ends nobody by our will") {
  auto supervisor = running();
  CHECK(supervisor.handle(t0, Forward{10}) ==
        Actions{SignalGroup{first, 10}, SignalGroup{second, 10}});
  const auto failed = supervisor.handle(t0, Exited{first, {true, 10}, WallTime{}});
  REQUIRE(std::holds_alternative<Failed>(failed[0]));
  CHECK(std::get<Failed>(failed[0]).outcome.our_signal == 0);
}

TEST_CASE("a signal for the workers alone reaches those that run, and nobody whose end has begun") {
  auto supervisor = running();
  CHECK(supervisor.handle(t0, Deliver{10}) ==
        Actions{SignalWorker{first, 10}, SignalWorker{second, 10}});
  supervisor.handle(t0, Stop{"enough", SIGTERM});
  CHECK(supervisor.handle(t0, Deliver{10}).empty());
}
