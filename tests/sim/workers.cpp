// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/workers.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace cpprun::sim {

using namespace std::chrono_literals;

namespace {

constexpr int workers_max = 8;
constexpr int started_pids_from = 500'000;
constexpr Duration reset_takes = 300ms;  // until a worker notices the loss of its neighbour

}  // namespace

Workers::Workers(Universe& universe, const MachineClock& clock, int node, Hooks hooks)
    : universe_(universe), clock_(clock), node_(node), hooks_(std::move(hooks)) {
  processes_.resize(workers_max);
}

void Workers::begin_round(RoundId round) {
  round_ = round;
  ++attempts_;
  watches_ = false;
}

// The processes that workers have started: one in the group and one in its own session. SIGTERM
// does not end them.
void Workers::see_tree() {
  if (!watches_) return;
  supervisor::TreeSeen seen;
  for (int local_rank = 0; local_rank < workers_max; ++local_rank) {
    const Process& process = at(local_rank);
    const int leader = pid_of(local_rank);
    const int parent = process.alive ? leader : 1;
    const int first = started_pids_from + 2 * local_rank;
    if (process.members) {
      seen.processes.push_back({.pid = first,
                                .started = process.life,
                                .parent = parent,
                                .group = leader,
                                .session = leader});
    }
    if (process.runaway) {
      seen.processes.push_back({.pid = first + 1, .started = process.life, .parent = parent});
    }
  }
  hooks_.tell(std::move(seen));
}

int Workers::pid_of(int local_rank) const {
  return worker_pids_from + 16 * node_ + local_rank;
}

int Workers::rank_of_started(int pid) {
  return (pid - started_pids_from) / 2;
}

bool Workers::has(int local_rank) const {
  return local_rank >= 0 && local_rank < workers_max;
}

Workers::Process& Workers::at(int local_rank) {
  return processes_[static_cast<std::size_t>(local_rank)];
}

Random Workers::random_for(int local_rank, int purpose) const {
  return Random{universe_.scenario.seed, 23, node_, attempts_, local_rank, purpose};
}

bool Workers::any_alive() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const Process& p) { return p.alive || p.members || p.runaway; });
}

bool Workers::any_in_round() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const Process& p) {
    return (p.alive || p.members || p.runaway) && !p.waits;
  });
}

bool Workers::any_alive_but_stuck() const {
  return std::any_of(processes_.begin(), processes_.end(), [this](const Process& p) {
    return (p.alive || p.members || p.runaway) && p.stuck_until < universe_.time.now();
  });
}

bool Workers::computing() const {
  return std::any_of(processes_.begin(), processes_.end(), [this](const Process& p) {
    return p.alive && !p.waits && p.stuck_until < universe_.time.now();
  });
}

void Workers::perform(const supervisor::ProcessAction& action) {
  if (const auto* start = std::get_if<supervisor::Spawn>(&action)) {
    spawn(start->spec);
  } else if (const auto* leave = std::get_if<supervisor::LeaveRound>(&action)) {
    leave_round(*leave);
  } else if (const auto* place = std::get_if<supervisor::TakePlace>(&action)) {
    take_place(place->spec);
  } else if (const auto* sent = std::get_if<supervisor::SignalGroup>(&action)) {
    signal(sent->local_rank.value, sent->signal);
  } else if (const auto* main = std::get_if<supervisor::SignalMain>(&action)) {
    signal(main->local_rank.value, main->signal);
  } else if (const auto* other = std::get_if<supervisor::SignalProcess>(&action)) {
    universe_.judge.must(!at(rank_of_started(other->pid)).alive,
                         "what a worker has started was sent a signal before the worker exited");
  } else if (std::holds_alternative<supervisor::WatchTree>(action)) {
    watches_ = true;
    see_tree();
  } else if (const auto* saves = std::get_if<supervisor::SignalWorker>(&action)) {
    const Process& process = at(saves->local_rank.value);
    if (process.alive) universe_.judge.worker_saves(node_, process.round, process.rank);
  } else if (const auto* swept = std::get_if<supervisor::Sweep>(&action)) {
    sweep(swept->local_rank.value);
  } else if (std::holds_alternative<supervisor::SweepNode>(action)) {
    sweep_node();
  }
}

// --- life ----------------------------------------------------------------------------------------

void Workers::spawn(const WorkerSpec& spec) {
  const int local_rank = spec.local_rank.value;
  Process& process = at(local_rank);
  if (std::exchange(process.refuse, false)) {
    universe_.trace.line(universe_.time.now(), "node {} cannot start local rank {}", node_,
                         local_rank);
    universe_.judge.worker_cannot_start(node_, round_, spec.rank);
    hooks_.tell(supervisor::SpawnFailed{
        spec.local_rank, {SpawnStage::exec, 2}, clock_.wall(universe_.time.now())});
    return;
  }
  const auto job = static_cast<std::size_t>(universe_.scenario.job_of(node_));
  // If it was restarted alone, only the sweep of the node finds what has left its session.
  const bool is_alone = universe_.scenario.jobs[job].restarts.scope == RestartScope::worker &&
                        process.round == round_;
  universe_.judge.must(!process.alive && !process.members && (!process.runaway || is_alone),
                       "a worker was started while the one before it was still there");
  const Process before = process;
  process = {.rank = spec.rank, .round = round_, .life = before.life + 1, .alive = true};
  process.runaway = before.runaway;
  process.crashes_left = before.crashes_left;
  universe_.trace.line(universe_.time.now(), "node {} starts rank {} of round {}", node_,
                       spec.rank.value, round_.number.value);
  universe_.judge.worker_started(node_, round_, spec.rank);
  hooks_.tell(supervisor::Started{spec.local_rank, pid_of(local_rank)});
  plan_life(local_rank);
  if (universe_.scenario.stores) use_store(local_rank);
  consider_changing_rounds(local_rank);
}

// --- from one round to the next ------------------------------------------------------------------

// Most of the workers can, and report it soon.
void Workers::consider_changing_rounds(int local_rank) {
  const auto job = static_cast<std::size_t>(universe_.scenario.job_of(node_));
  Random random = random_for(local_rank, 95);
  if (!universe_.scenario.jobs[job].restarts.reconfigures || random.chance(0.15)) return;
  universe_.time.later(random.up_to(200ms), [this, local_rank, life = at(local_rank).life] {
    Process& process = at(local_rank);
    if (process.life != life || !process.alive) return;
    process.changes_rounds = true;
    hooks_.tell(supervisor::Rejoins{LocalRank{local_rank}});
  });
}

// Some take long, a few for ever. An answer about an earlier round may come once more.
void Workers::leave_round(const supervisor::LeaveRound& action) {
  const int local_rank = action.local_rank.value;
  const Process& process = at(local_rank);
  if (!process.alive) return;  // its agent does not know yet
  universe_.judge.must(process.changes_rounds && !process.waits,
                       "a worker that cannot change rounds was asked to");
  universe_.judge.must(process.round.number == action.round,
                       "a worker was asked to leave a round in which it is not");
  Random random = random_for(local_rank, 96);
  if (random.chance(0.3) && action.round.value > 1) {
    hooks_.tell(supervisor::Rejoins{action.local_rank, RoundNumber{action.round.value - 1}});
  }
  if (random.chance(0.05)) return;
  const Duration delay = random.chance(0.1) ? random.up_to(12s) : random.up_to(100ms);
  universe_.time.later(delay, [this, local_rank, life = process.life, round = action.round] {
    Process& leaving = at(local_rank);
    if (leaving.life != life || !leaving.alive) return;
    if (leaving.asked_to_end || leaving.stuck_until > universe_.time.now()) return;
    universe_.judge.worker_left(node_, leaving.round, leaving.rank);
    leaving.waits = true;
    leaving.round = {};
    ++leaving.life;  // it does not end as it was going to
    if (leaving.user) std::exchange(leaving.user, nullptr)->end();
    hooks_.tell(supervisor::Rejoins{LocalRank{local_rank}, round});
  });
}

void Workers::take_place(const WorkerSpec& spec) {
  const int local_rank = spec.local_rank.value;
  Process& process = at(local_rank);
  if (!process.alive) return;  // its agent does not know yet
  universe_.judge.must(process.waits,
                       "a worker that had not left its round got a place in another");
  process.rank = spec.rank;
  process.round = round_;
  process.waits = false;
  ++process.life;
  universe_.trace.line(universe_.time.now(), "node {} rank {} goes on in round {}", node_,
                       spec.rank.value, round_.number.value);
  universe_.judge.worker_started(node_, round_, spec.rank);
  plan_life(local_rank);
  if (universe_.scenario.stores) use_store(local_rank);
}

void Workers::use_store(int local_rank) {
  Process& process = at(local_rank);
  process.user = std::make_shared<StoreUser>(
      universe_,
      StoreUser::Self{node_, universe_.scenario.job_of(node_), process.rank, process.round},
      random_for(local_rank, 94),
      StoreUser::Hooks{.connect = hooks_.connect, .is_calm = hooks_.is_calm});
  process.user->begin();
}

// The workers of a round compute equally long, but now and then one is done early.
void Workers::plan_life(int local_rank) {
  Process& process = at(local_rank);
  Random random = random_for(local_rank, 1);
  if (process.crashes_left > 0) {
    --process.crashes_left;
    end_later(local_rank, 1ms + random.up_to(800ms), {false, 1}, CauseOfDeath::injected);
    return;
  }
  const auto job = static_cast<std::size_t>(universe_.scenario.job_of(node_));
  const Duration most = universe_.scenario.jobs[job].work_max;
  Random common{universe_.scenario.seed, 29, job, process.round.number.value};
  Duration life = common.between(most / 4, most) + random.up_to(50ms);
  if (random.chance(0.1)) life = random.up_to(life);
  end_later(local_rank, life, {}, CauseOfDeath::done);
}

void Workers::end_later(int local_rank, Duration delay, link::ExitStatus status,
                        CauseOfDeath cause) {
  universe_.time.later(delay, [this, local_rank, status, cause, life = at(local_rank).life] {
    if (at(local_rank).life == life) end(local_rank, status, cause);
  });
}

void Workers::end(int local_rank, link::ExitStatus status, CauseOfDeath cause) {
  Process& process = at(local_rank);
  if (!process.alive) return;
  const bool was_killed = cause == CauseOfDeath::asked || cause == CauseOfDeath::orphaned;
  if (was_killed && process.stuck_until > universe_.time.now()) {
    // Its end has to wait until it leaves the kernel.
    const Duration rest = process.stuck_until - universe_.time.now();
    end_later(local_rank, rest, status, cause);
    return;
  }
  process.alive = false;
  if (process.user) std::exchange(process.user, nullptr)->end();
  const bool bad = status != link::ExitStatus{};
  if (process.asked_to_end && cause != CauseOfDeath::orphaned) cause = CauseOfDeath::asked;
  universe_.trace.line(universe_.time.now(), "node {} rank {} ends: {} {}", node_,
                       process.rank.value, status.signalled ? "signal" : "code", status.value);
  const WorkerEnd last{.node = node_,
                       .rank = process.rank,
                       .round = process.round,
                       .status = status,
                       .cause = cause,
                       .members_left = process.members || process.runaway};
  universe_.judge.worker_ended(last);
  hooks_.tell(supervisor::Exited{LocalRank{local_rank}, status, clock_.wall(universe_.time.now())});
  if (bad && cause != CauseOfDeath::asked) hooks_.died(last);
}

// --- its end -------------------------------------------------------------------------------------

void Workers::signal(int local_rank, int number) {
  if (number == SIGSTOP || number == SIGCONT) return;  // a pause takes no time
  Process& process = at(local_rank);
  if (number == SIGUSR1 || number == SIGUSR2 || number == 0) return;
  if (number == SIGKILL) kill_members(local_rank);
  if (!process.alive || (number != SIGKILL && process.ignores_term)) return;
  process.asked_to_end = true;
  Random random = random_for(local_rank, 2 + number);
  if (number == SIGKILL) {
    end_later(local_rank, random.up_to(2ms), {true, SIGKILL}, CauseOfDeath::asked);
    return;
  }
  // Some workers handle it, save their state and exit; most are killed.
  const bool graceful = random.chance(0.3);
  const link::ExitStatus status = graceful ? link::ExitStatus{} : link::ExitStatus{true, number};
  end_later(local_rank, random.up_to(graceful ? 1s : 20ms), status, CauseOfDeath::asked);
}

void Workers::sweep(int local_rank) {
  Random random = random_for(local_rank, 90);
  universe_.time.later(random.up_to(5ms), [this, local_rank, life = at(local_rank).life] {
    Process& process = at(local_rank);
    if (process.life != life) return;
    kill_members(local_rank);
    hooks_.tell(supervisor::GroupGone{LocalRank{local_rank}});
  });
}

void Workers::kill_members(int local_rank) {
  if (std::exchange(at(local_rank).members, false)) see_tree();
}

void Workers::sweep_node() {
  watches_ = false;
  universe_.time.later(random_for(0, 91).up_to(5ms), [this] {
    for (Process& process : processes_) {
      if (!process.alive || !process.waits) process.runaway = false;
    }
    hooks_.tell(supervisor::NodeSwept{});
  });
}

void Workers::orphaned() {
  for (int local_rank = 0; local_rank < workers_max; ++local_rank) {
    Random random = random_for(local_rank, 92);
    end_later(local_rank, random.up_to(1ms), {true, SIGKILL}, CauseOfDeath::orphaned);
    universe_.time.later(random.up_to(500ms), [this, local_rank, life = at(local_rank).life] {
      Process& process = at(local_rank);
      if (process.life == life) process.members = process.runaway = false;
    });
  }
}

void Workers::vanish() {
  for (Process& process : processes_) {
    if (process.alive) {
      universe_.judge.worker_ended({.node = node_,
                                    .rank = process.rank,
                                    .round = process.round,
                                    .status = {true, SIGKILL},
                                    .cause = CauseOfDeath::orphaned});
    }
    process.alive = process.members = process.runaway = false;
    if (process.user) std::exchange(process.user, nullptr)->end();
    ++process.life;
  }
}

// --- faults --------------------------------------------------------------------------------------

void Workers::fail(int local_rank, link::ExitStatus status, bool injected) {
  if (!has(local_rank)) return;
  end(local_rank, status, injected ? CauseOfDeath::injected : CauseOfDeath::neighbour);
}

void Workers::fail_of_neighbour(Rank rank, RoundId round) {
  for (int local_rank = 0; local_rank < workers_max; ++local_rank) {
    Process& process = at(local_rank);
    if (!process.alive || process.rank != rank || process.round != round) continue;
    if (process.changes_rounds) continue;  // it waits for the next round instead
    Random random = random_for(local_rank, 93);
    if (!random.chance(universe_.scenario.victims)) continue;
    end_later(local_rank, 100us + random.up_to(reset_takes), {false, 1}, CauseOfDeath::neighbour);
  }
}

void Workers::hang(int local_rank) {
  if (has(local_rank)) at(local_rank).ignores_term = true;
}

void Workers::stick(int local_rank, TimePoint until) {
  if (!has(local_rank) || !at(local_rank).alive) return;
  // A worker that is already stuck is not released sooner.
  at(local_rank).stuck_until = std::max(at(local_rank).stuck_until, until);
}

void Workers::leave_members(int local_rank, bool runaway) {
  if (!has(local_rank) || !at(local_rank).alive) return;
  // From now on, not only after its end: a worker that is killed or stuck starts nothing.
  if (at(local_rank).stuck_until > universe_.time.now()) return;
  (runaway ? at(local_rank).runaway : at(local_rank).members) = true;
}

void Workers::crash_next(int local_rank, int times) {
  if (!has(local_rank)) return;
  at(local_rank).crashes_left = times;
  fail(local_rank, {false, 1}, true);
}

void Workers::refuse_next(int local_rank) {
  if (has(local_rank)) at(local_rank).refuse = true;
}

}  // namespace cpprun::sim
