// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/supervisor.h"

#include <algorithm>
#include <cassert>
#include <csignal>
#include <map>
#include <set>
#include <utility>

#include "launcher/workers/bounds.h"
#include "proto/signal_names.h"

namespace cpprun {

using namespace supervisor;

EndPolicy end_policy_of(const Config& config) {
  return {.grace = config.grace,
          .scope = config.signal_scope,
          .stragglers = config.stragglers,
          .dumps_stacks = config.probes(),
          .restart_scope = config.restarts.scope,
          .keeps_workers = config.restarts.reconfigures};
}

Supervisor::Supervisor(std::vector<WorkerSpec> specs, EndPolicy policy,
                       std::optional<HeartbeatTimeout> beat_timeout)
    : policy_(policy), beats_(beat_timeout) {
  for (auto& spec : specs) {
    Outcome outcome;
    outcome.local_rank = spec.local_rank;
    outcome.rank = spec.rank;
    workers_.push_back(Worker{.spec = std::move(spec), .life = Life::asked, .outcome = outcome});
  }
}

Supervisor::Actions Supervisor::start(TimePoint now, RoundNumber round) {
  assert(phase_ == Phase::idle && "an attempt starts once");
  phase_.become(Phase::running);
  round_ = round;
  Actions actions;
  for (auto& worker : workers_) {
    worker.since = now;
    actions.emplace_back(Spawn{worker.spec});
  }
  go_on_if_gone(now, actions);
  return actions;
}

Supervisor::Actions Supervisor::resume(TimePoint now, RoundNumber round,
                                       std::vector<WorkerSpec> specs) {
  assert(waits() && specs.size() == workers_.size());
  phase_.become(Phase::running);
  round_ = round;
  first_failure_.reset();
  drain_reason_.clear();
  beats_.stop();
  Actions actions;
  for (std::size_t at = 0; at < workers_.size(); ++at) {
    Worker& worker = workers_[at];
    if (!worker.remains()) {
      worker = Worker{.since = now, .is_pending = true, .awaits_gone = worker.life == Life::ended};
    }
    worker.has_left = false;
    worker.spec = std::move(specs[at]);
    worker.outcome.local_rank = worker.spec.local_rank;
    worker.outcome.rank = worker.spec.rank;
    if (worker.is_pending) continue;
    beats_.remained(now, worker.spec.local_rank);
    actions.emplace_back(TakePlace{worker.spec});
  }
  sweep_before_start(actions);
  if (std::ranges::any_of(workers_, &Worker::is_pending)) deadline_ = now + bounds::kill_timeout;
  return actions;
}

// What a worker that has exited meanwhile had started is killed before its successor starts.
void Supervisor::sweep_before_start(Actions& actions) {
  if (std::ranges::any_of(workers_, &Worker::awaits_gone)) return;
  if (needs_sweep_) {
    actions.emplace_back(SweepNode{});
    return;
  }
  deadline_.reset();
  for (Worker& each : workers_) {
    if (std::exchange(each.is_pending, false)) actions.emplace_back(Spawn{each.spec});
  }
}

// A process that a worker left behind ignores SIGKILL, because it is stuck in the kernel, or is
// another user's.
void Supervisor::end_wait_for_starts(TimePoint now, Actions& actions) {
  const auto predecessor = std::ranges::find_if(workers_, &Worker::awaits_gone);
  if (predecessor == workers_.end()) {
    needs_sweep_ = false;
    return sweep_before_start(actions);
  }
  const std::string rank = std::to_string(predecessor->spec.rank.value);
  begin_drain(now, "a process of the previous rank " + rank + " ignores SIGKILL", SIGTERM, actions);
  go_on_if_gone(now, actions);
}

std::vector<WorkerSpec> Supervisor::with_files_of_remaining(std::vector<WorkerSpec> specs) const {
  for (std::size_t at = 0; at < specs.size() && at < workers_.size(); ++at) {
    if (!workers_[at].remains()) continue;
    const WorkerSpec& own = workers_[at].spec;
    specs[at].out = own.out;
    specs[at].err = own.err;
    specs[at].log_directory = own.log_directory;
    specs[at].error_file = own.error_file;
  }
  return specs;
}

Supervisor::Actions Supervisor::handle(TimePoint now, const Event& event) {
  Actions actions;
  if (phase_ == Phase::finished) return actions;
  std::visit([&](const auto& what) { on(now, what, actions); }, event);
  return actions;
}

Supervisor::Actions Supervisor::advance(TimePoint now) {
  Actions actions;
  if (phase_ == Phase::running && beats_.take_due(now)) actions.emplace_back(ReadHeartbeats{});
  advance_restarts(now, actions);
  if (still_ending_due_ && *still_ending_due_ <= now) tell_still_ending(now, actions);
  if (!deadline_ || now < *deadline_) return actions;
  deadline_.reset();
  switch (phase_) {
    case Phase::draining:
      if (policy_.dumps_stacks && !has_dumped_stacks_ && !all(Life::ended)) {
        dump_stacks(now, actions);
      } else {
        begin_killing(now, false, actions);
      }
      break;
    case Phase::lingering:
      end_lingering(now, actions);
      break;
    case Phase::sweeping:
      finish(actions, /*unswept=*/true);
      break;
    case Phase::leaving:
      end_leaving(now, actions);
      break;
    case Phase::waiting:
      break;
    case Phase::running:
      if (std::ranges::any_of(workers_, &Worker::is_pending)) {
        end_wait_for_starts(now, actions);
        break;
      }
      [[fallthrough]];
    case Phase::killing:
      give_up_the_rest();
      go_on_if_gone(now, actions);
      break;
    case Phase::idle:
    case Phase::finished:
      break;
  }
  return actions;
}

std::optional<TimePoint> Supervisor::next_deadline() const {
  const auto beat = phase_ == Phase::running ? beats_.next_deadline() : std::nullopt;
  auto soonest = deadline_;
  const auto consider = [&soonest](std::optional<TimePoint> each) {
    if (each && (!soonest || *each < *soonest)) soonest = each;
  };
  consider(beat);
  consider(still_ending_due_);
  for (const Worker& each : workers_) {
    consider(each.gone_by);
    if (each.next && each.life == Life::gone && !holds_) consider(each.next_at);
  }
  return soonest;
}

void Supervisor::on(TimePoint now, const Started& event, Actions& actions) {
  auto& started = worker(event.local_rank);
  if (started.life != Life::asked) return;
  started.life = Life::alive;
  started.since = now;
  started.outcome.pid = event.pid;
  if (phase_ == Phase::running) beats_.started(now, event.local_rank);
  // The stop began while this worker was being started. It must not miss the signal.
  if (phase_ == Phase::draining || phase_ == Phase::leaving) send(started, drain_signal_, actions);
  if (phase_ == Phase::killing) send(started, SIGKILL, actions);
}

void Supervisor::on(TimePoint now, const SpawnFailed& event, Actions& actions) {
  auto& failed = worker(event.local_rank);
  if (failed.life != Life::asked) return;
  failed.life = Life::gone;
  failed.since = now;
  failed.outcome.spawn_error = event.error;
  failed.outcome.status = {.signalled = false, .value = exit_code_of(event.error)};
  failed.outcome.time = event.time;
  judge_end(now, failed, actions);
  go_on_if_gone(now, actions);
}

void Supervisor::on(TimePoint now, const Exited& event, Actions& actions) {
  auto& ended = worker(event.local_rank);
  if (ended.life != Life::alive) return;
  ended.life = Life::ended;
  ended.since = now;
  beats_.ended(event.local_rank);
  ended.outcome.status = event.status;
  ended.outcome.time = event.time;
  const bool was_running = phase_ == Phase::running;
  const bool is_good = ended.outcome.good();
  // An outside stop signal reached the worker before it reached us.
  const bool is_asked = event.status.signalled && asks_to_end(event.status.value);
  // Report the failure before cleaning up after this worker, because the others are still
  // computing.
  judge_end(now, ended, actions);
  const bool is_restarted = phase_ == Phase::running && ended.has_failed;
  // What it has started has the rest of the grace period.
  const bool is_ended_alone = is_restarted && ended.is_ended_alone;
  if (is_ended_alone) actions.emplace_back(WatchTree{});
  const bool is_by_itself = is_restarted || (was_running && !is_good && !is_asked);
  const bool failed_by_itself = is_by_itself && !is_ended_alone;
  if (is_restarted && !is_ended_alone) ended.gone_by = now + bounds::kill_timeout;
  const bool kills_stragglers =
      was_running && is_good && !is_restarted && policy_.stragglers == Stragglers::kill;
  const bool others_remain = phase_ == Phase::leaving || phase_ == Phase::waiting;
  if (phase_ == Phase::waiting) needs_sweep_ = true;
  if (phase_ == Phase::killing || failed_by_itself || kills_stragglers || others_remain) {
    sweep(ended, actions);
  }
  signal_down(now, actions);
  go_on_if_gone(now, actions);
}

void Supervisor::on(TimePoint now, const GroupGone& event, Actions& actions) {
  auto& gone = worker(event.local_rank);
  if (std::exchange(gone.awaits_gone, false)) return sweep_before_start(actions);
  if (gone.life != Life::ended) return;
  gone.life = Life::gone;
  gone.gone_by.reset();
  advance_restarts(now, actions);
  go_on_if_gone(now, actions);
}

void Supervisor::on(TimePoint, const NodeSwept&, Actions& actions) {
  if (phase_ == Phase::sweeping) finish(actions);
  if (phase_ == Phase::leaving && is_sweeping_) begin_waiting(actions);
  if (phase_ == Phase::running && std::exchange(needs_sweep_, false)) sweep_before_start(actions);
}

void Supervisor::on(TimePoint now, const TreeSeen& event, Actions& actions) {
  if (phase_ == Phase::running) {
    seen_ = event.processes;
    return see_tree_of_hung(now, actions);
  }
  if (phase_ != Phase::draining && phase_ != Phase::lingering) return;
  seen_ = event.processes;
  if (std::exchange(awaits_record_, false)) record_tree();
  signal_down(now, actions);
  if (!awaits_rest_ || releases_) return;
  rest_is_seen_ = true;
  if (rest().empty()) {
    for (Worker& each : workers_) {
      if (each.life == Life::ended) sweep(each, actions);
    }
    if (all(Life::gone)) sweep_node(now, actions);
  } else if (phase_ == Phase::lingering && !std::exchange(rest_is_told_, true)) {
    if (policy_.stragglers == Stragglers::leave) return release(actions);
    const auto fate = rest_is_ending_ ? Leftover::Fate::ended : Leftover::Fate::awaited;
    actions.emplace_back(Leftover{fate, rest()});
  }
}

// Report the worker as ended by the stop signal, because its actual exit may take a while.
void Supervisor::on(TimePoint now, const HeartbeatsSeen& event, Actions& actions) {
  if (phase_ != Phase::running) return;
  const auto silent = beats_.heard(now, event.readings);
  if (!silent) return;
  Worker& hung = worker(silent->local_rank);
  hung.outcome.hung_for = silent->since_beat;
  Outcome outcome = hung.outcome;
  outcome.status = {.signalled = true, .value = SIGTERM};
  outcome.time = event.time;
  fail(now, hung, outcome, "hangs", actions);
}

void Supervisor::on(TimePoint now, const Hung& event, Actions& actions) {
  if (phase_ != Phase::running) return;
  // The rank to blame may have exited with 0 while others wait for it: one of those is ended.
  const auto alive = std::ranges::find(workers_, Life::alive, &Worker::life);
  const bool is_alive = worker(event.local_rank).life == Life::alive;
  if (!is_alive && alive == workers_.end()) return;
  Worker& hung = is_alive ? worker(event.local_rank) : *alive;
  if (hung.has_failed) return;
  hung.outcome.hung_for = event.quiet;
  hung.outcome.verdict = event.verdict;
  Outcome outcome = hung.outcome;
  outcome.status = {.signalled = true, .value = SIGTERM};
  outcome.time = event.time;
  fail(now, hung, outcome, "hangs", actions);
}

void Supervisor::on(TimePoint now, const Restart& event, Actions& actions) {
  Worker& restarted = worker(event.spec.local_rank);
  if (phase_ != Phase::running || !restarted.has_failed) return;
  restarted.next = event.spec;
  restarted.next_at = now + event.pause;
  advance_restarts(now, actions);
}

void Supervisor::on(TimePoint now, const Hold& event, Actions& actions) {
  holds_ = event.holds;
  advance_restarts(now, actions);
}

// An answer about an earlier round comes from a worker that does not know yet that this one broke.
void Supervisor::on(TimePoint now, const Rejoins& event, Actions& actions) {
  Worker& each = worker(event.local_rank);
  if (each.life != Life::alive || each.outcome.our_signal != 0) return;
  if (phase_ == Phase::running) each.can_change_rounds = true;
  if (phase_ != Phase::leaving || !each.can_change_rounds || event.round != round_) return;
  each.has_left = true;
  wait_if_all_left(now, actions);
}

void Supervisor::on(TimePoint now, const Break& event, Actions& actions) {
  if (phase_ == Phase::leaving || phase_ == Phase::waiting) return;
  if (phase_ == Phase::running && begin_leaving(now, event.reason, actions)) return;
  on(now, Stop{event.reason}, actions);
}

void Supervisor::on(TimePoint now, const Stop& event, Actions& actions) {
  const bool runs = phase_ >= Phase::running && phase_ <= Phase::waiting;
  if ((!runs && phase_ != Phase::lingering) || releases_) return;
  begin_drain(now, event.reason, event.signal, actions);
  // With RestartScope::worker, none of them may be alive.
  if (runs && all(Life::ended)) go_on_if_gone(now, actions);
}

void Supervisor::on(TimePoint, const Forward& event, Actions& actions) {
  // Not `send`: if a worker dies of it, we did not ask it to exit.
  for (const Worker& each : workers_) {
    if (each.life == Life::alive)
      actions.emplace_back(SignalGroup{each.spec.local_rank, event.signal});
  }
}

void Supervisor::on(TimePoint, const Deliver& event, Actions& actions) {
  if (phase_ != Phase::running) return;
  for (const Worker& each : workers_) {
    if (each.life == Life::alive)
      actions.emplace_back(SignalWorker{each.spec.local_rank, event.signal});
  }
}

void Supervisor::on(TimePoint now, const Insist& event, Actions& actions) {
  if (releases_) return;
  const bool runs = phase_ >= Phase::running && phase_ <= Phase::waiting;
  if (runs || phase_ == Phase::lingering) {
    phase_.become(Phase::draining);
    forget_restarts();
    ending_since_ = now;
    beats_.stop();
    drain_signal_ = SIGKILL;
    drain_reason_ = event.reason;
    actions.emplace_back(Draining{event.reason, SIGKILL});
  }
  if (phase_ == Phase::draining) begin_killing(now, true, actions);
}

// Only an exit that was not requested, before anything was stopped, is a failure of this node.
void Supervisor::judge_end(TimePoint now, Worker& ended, Actions& actions) {
  if (phase_ != Phase::running || ended.outcome.good() || ended.has_failed) return;
  fail(now, ended, ended.outcome, "failed", actions);
}

void Supervisor::fail(TimePoint now, Worker& worker, const Outcome& outcome,
                      const std::string& what, Actions& actions) {
  actions.emplace_back(Failed{outcome});
  if (policy_.restart_scope == RestartScope::worker) {
    worker.has_failed = true;
    if (worker.life == Life::alive) end_alone(now, worker, actions);
    return;
  }
  first_failure_ = outcome;
  const std::string reason = "rank " + std::to_string(outcome.rank.value) + " " + what;
  if (!begin_leaving(now, reason, actions)) begin_drain(now, reason, SIGTERM, actions);
}

// Returns false, and does nothing, if no worker can change rounds.
bool Supervisor::begin_leaving(TimePoint now, const std::string& reason, Actions& actions) {
  const auto stays = [](const Worker& each) {
    return each.life == Life::alive && each.can_change_rounds && !each.outcome.hung_for;
  };
  if (!policy_.keeps_workers || std::ranges::none_of(workers_, stays)) return false;
  phase_.become(Phase::leaving);
  ending_since_ = now;
  beats_.stop();
  drain_signal_ = SIGTERM;
  drain_reason_ = reason;
  deadline_ = now + policy_.grace;
  kills_late_ = is_sweeping_ = needs_sweep_ = false;
  Leaving leaving{.reason = reason};
  for (Worker& each : workers_) {
    if (stays(each)) leaving.ranks.push_back(each.spec.rank);
  }
  actions.emplace_back(std::move(leaving));
  for (Worker& each : workers_) {
    if (stays(each)) {
      actions.emplace_back(LeaveRound{each.spec.local_rank, round_});
    } else if (each.life == Life::alive) {
      send(each, SIGTERM, actions);
    } else if (each.life == Life::ended) {
      sweep(each, actions);
    }
  }
  forget_pending_starts();
  return true;
}

void Supervisor::end_alone(TimePoint now, Worker& hung, Actions& actions) {
  beats_.ended(hung.spec.local_rank);
  hung.gone_by = now + policy_.grace;
  hung.is_ended_alone = true;
  hung.awaits_record = policy_.scope == SignalScope::process;
  ending_since_ = now;
  drain_signal_ = SIGTERM;
  actions.emplace_back(WatchTree{});
  send(hung, SIGTERM, actions);
}

// While the other workers run.
void Supervisor::see_tree_of_hung(TimePoint now, Actions& actions) {
  for (Worker& each : workers_) {
    if (std::exchange(each.awaits_record, false)) record_tree_of(each);
  }
  signal_down(now, actions);
  for (Worker& each : workers_) {
    const bool is_rest_known = each.life == Life::ended && each.is_ended_alone && !each.is_swept;
    const bool is_left = std::ranges::any_of(seen_, [&each](const TreeProcess& process) {
      return process.group == each.outcome.pid || process.session == each.outcome.pid;
    });
    if (!is_rest_known || is_left) continue;
    each.gone_by = now + bounds::kill_timeout;
    sweep(each, actions);
  }
}

// The time of a failed worker is over. Returns false if it was sent KILL already: it is stuck.
bool Supervisor::insist_on_end(TimePoint now, Worker& each, Actions& actions) {
  const bool is_alive = each.life == Life::alive;
  if (is_alive ? each.outcome.our_signal == SIGKILL : each.is_swept) return false;
  if (is_alive && policy_.dumps_stacks && !std::exchange(each.has_dumped_stack, true)) {
    each.gone_by = now + stack_dump_pause;
    actions.emplace_back(DumpStack{each.spec.local_rank});
    return true;
  }
  each.gone_by = now + bounds::kill_timeout;
  each.is_ended_alone = false;
  if (is_alive) {
    actions.emplace_back(Killing{each.spec.local_rank, /*at_once=*/false});
    send(each, SIGKILL, actions);
  } else {
    sweep(each, actions);
  }
  return true;
}

// Starts the workers whose restart is due, and ends those that hang.
void Supervisor::advance_restarts(TimePoint now, Actions& actions) {
  if (phase_ != Phase::running) return;
  bool has_spawned = false;
  for (Worker& each : workers_) {
    if (each.gone_by && *each.gone_by <= now && !insist_on_end(now, each, actions)) {
      const std::string rank = std::to_string(each.spec.rank.value);
      const std::string pid = std::to_string(each.outcome.pid);
      const std::string what = each.life == Life::alive
                                   ? "rank " + rank + " (pid " + pid + ")"
                                   : "a process of rank " + rank + " (process group " + pid + ")";
      begin_drain(now, what + " ignores SIGKILL", SIGTERM, actions);
      return go_on_if_gone(now, actions);
    }
    if (!each.next || each.life != Life::gone || each.next_at > now || holds_) continue;
    Outcome outcome;
    outcome.local_rank = each.spec.local_rank;
    outcome.rank = each.spec.rank;
    each = Worker{.spec = *std::move(each.next), .life = Life::asked, .outcome = outcome};
    each.since = now;
    actions.emplace_back(Spawn{each.spec});
    has_spawned = true;
  }
  // A start ends the watch of the trees.
  const bool watches = std::ranges::any_of(
      workers_, [](const Worker& each) { return each.is_ended_alone && !each.is_swept; });
  if (has_spawned && watches) actions.emplace_back(WatchTree{});
}

// The workers are being stopped: none is restarted.
void Supervisor::forget_restarts() {
  for (Worker& each : workers_) {
    if (each.has_failed && !first_failure_) first_failure_ = each.outcome;
    each.next.reset();
    each.gone_by.reset();
    each.is_ended_alone = each.awaits_record = false;
  }
}

void Supervisor::begin_drain(TimePoint now, const std::string& reason, int signal,
                             Actions& actions) {
  const bool lingered = phase_ == Phase::lingering;
  forget_pending_starts();
  phase_.become(Phase::draining);
  forget_restarts();
  ending_since_ = now;
  beats_.stop();
  drain_signal_ = signal;
  drain_reason_ = reason;
  deadline_ = now + policy_.grace;
  still_ending_due_ = now + still_ending_after;
  awaits_record_ = lingered || policy_.scope == SignalScope::process;
  actions.emplace_back(Draining{reason, signal});
  // Before the signal: a process that dies of it can no longer be asked for its children.
  actions.emplace_back(WatchTree{});
  for (auto& each : workers_) {
    if (each.life == Life::alive) send(each, signal, actions);
  }
}

// The exits of their predecessors were reported.
void Supervisor::forget_pending_starts() {
  for (Worker& each : workers_) {
    if (!std::exchange(each.is_pending, false)) continue;
    each.life = std::exchange(each.awaits_gone, false) ? Life::ended : Life::gone;
    each.was_reported = true;
  }
}

// The grace period is over. What is stuck in the kernel even after a KILL cannot be replaced.
void Supervisor::end_leaving(TimePoint now, Actions& actions) {
  if (is_sweeping_) return begin_waiting(actions);
  if (std::exchange(kills_late_, true)) return on(now, Insist{drain_reason_}, actions);
  deadline_ = now + bounds::kill_timeout;
  for (Worker& each : workers_) {
    if (each.life != Life::alive || each.has_left) continue;
    actions.emplace_back(Killing{each.spec.local_rank, false});
    send(each, SIGKILL, actions);
  }
}

// What exited workers have started is killed, too, unless all workers remain.
void Supervisor::wait_if_all_left(TimePoint now, Actions& actions) {
  const auto is_done = [](const Worker& each) { return each.life == Life::gone || each.remains(); };
  if (is_sweeping_ || !std::ranges::all_of(workers_, is_done)) return;
  if (all(Life::gone)) return sweep_node(now, actions);
  if (std::ranges::all_of(workers_, &Worker::remains)) return begin_waiting(actions);
  is_sweeping_ = true;
  deadline_ = now + bounds::kill_timeout;
  actions.emplace_back(SweepNode{});
}

void Supervisor::begin_waiting(Actions& actions) {
  phase_.become(Phase::waiting);
  deadline_.reset();
  Waiting waiting{.outcomes = {}, .first_failure = first_failure_};
  for (Worker& each : workers_) {
    // An exit after the worker has left the round is not a failure of that round.
    if (each.has_left) needs_sweep_ = needs_sweep_ || each.life != Life::alive;
    if (each.has_left || std::exchange(each.was_reported, true)) continue;
    waiting.outcomes.push_back(each.outcome);
  }
  actions.emplace_back(std::move(waiting));
}

// The grace period is over.
void Supervisor::dump_stacks(TimePoint now, Actions& actions) {
  has_dumped_stacks_ = true;
  deadline_ = now + stack_dump_pause;
  for (const Worker& each : workers_) {
    if (each.life == Life::alive) actions.emplace_back(DumpStack{each.spec.local_rank});
  }
}

void Supervisor::begin_killing(TimePoint now, bool at_once, Actions& actions) {
  const bool is_told = at_once || phase_ == Phase::lingering;
  const auto left = all(Life::ended) ? rest() : std::vector<TreeProcess>{};
  if (!is_told && !left.empty()) actions.emplace_back(Leftover{Leftover::Fate::killed, left});
  phase_.become(Phase::killing);
  deadline_ = now + bounds::kill_timeout;
  still_ending_due_.reset();
  for (auto& each : workers_) {
    if (each.life == Life::ended) sweep(each, actions);
    if (each.life != Life::alive) continue;
    actions.emplace_back(Killing{each.spec.local_rank, at_once});
    send(each, SIGKILL, actions);
  }
  go_on_if_gone(now, actions);
}

// --- the process trees ---------------------------------------------------------------------------

// A process whose parent had exited before the record belongs to the worker of its session. If it
// has its own session too, it belongs to no single worker.
void Supervisor::record_tree() {
  std::set<int> known;
  for (const TreeProcess& each : seen_) known.insert(each.pid);
  for (const Worker& each : workers_) known.insert(each.outcome.pid);
  const auto is_worker = [this](int pid) {
    return std::ranges::any_of(workers_,
                               [pid](const Worker& each) { return each.outcome.pid == pid; });
  };
  record_.emplace();
  for (const TreeProcess& each : seen_) {
    const int leader = is_worker(each.session) ? each.session : 0;
    record_->push_back(
        {.process = each, .parent = known.contains(each.parent) ? each.parent : leader});
  }
}

// Adds what a hung worker has started.
void Supervisor::record_tree_of(const Worker& worker) {
  if (!record_) record_.emplace();
  const int leader = worker.outcome.pid;
  std::map<int, int> parents;
  for (const TreeProcess& each : seen_) parents[each.pid] = each.parent;
  for (const TreeProcess& each : seen_) {
    const bool is_known = parents.contains(each.parent) || each.parent == leader;
    int ancestor = each.parent;
    for (std::size_t i = 0; i < seen_.size() && parents.contains(ancestor); ++i) {
      ancestor = parents.at(ancestor);
    }
    if (ancestor != leader && each.session != leader) continue;
    record_->push_back({.process = each, .parent = is_known ? each.parent : leader});
  }
}

// A process is held back while its parent runs. The exception is a wrapper that outlives the signal
// and only waits for this process (`trap … TERM` in a shell, bash on SIGINT): it would never pass
// the signal on. A parent that has started another process since then is busy with its own
// shutdown.
bool Supervisor::is_held_back(TimePoint now, const Recorded& each, const TreeProcess& seen) const {
  const auto is_parent_seen = [&](const auto& process) { return process.pid == each.parent; };
  const bool runs =
      std::ranges::any_of(seen_, is_parent_seen) ||
      std::ranges::any_of(workers_, [&](const Worker& worker) {
        return worker.life < Life::ended && (each.parent == 0 || worker.outcome.pid == each.parent);
      });
  if (!runs) return false;
  if (!seen.is_waited_for || now - ending_since_ < std::min(policy_.grace / 4, wrapper_pause)) {
    return true;
  }
  const auto record_of = [this](int pid) {
    return std::ranges::find_if(*record_,
                                [pid](const Recorded& one) { return one.process.pid == pid; });
  };
  const auto parent = record_of(each.parent);
  if (parent != record_->end() && !parent->signalled) return true;
  return std::ranges::any_of(seen_, [&](const TreeProcess& other) {
    return other.parent == each.parent && record_of(other.pid) == record_->end();
  });
}

// Sends the signal to every recorded process whose parent has exited. A `tee` that reads from such
// a process is held back: without a reader, output during a save would kill the writer.
void Supervisor::signal_down(TimePoint now, Actions& actions) {
  const bool is_ending =
      phase_ == Phase::running || phase_ == Phase::draining || phase_ == Phase::lingering;
  if (!record_ || !is_ending) return;
  const auto is_written_to = [this](const TreeProcess& reader) {
    return reader.in_pipe != 0 && std::ranges::any_of(seen_, [&](const TreeProcess& each) {
             const bool writes = each.out_pipe == reader.in_pipe || each.err_pipe == reader.in_pipe;
             const bool reads_too = each.in_pipe != 0 && each.in_pipe == reader.out_pipe;
             return writes && !reads_too && each.pid != reader.pid;
           });
  };
  std::vector<Recorded*> next;
  for (Recorded& each : *record_) {
    const auto seen = std::ranges::find_if(seen_, [&each](const TreeProcess& process) {
      return process.pid == each.process.pid && process.started == each.process.started;
    });
    if (each.signalled || seen == seen_.end() || is_held_back(now, each, *seen)) continue;
    if (!is_written_to(each.process)) next.push_back(&each);
  }
  for (Recorded* const each : next) {
    each->signalled = true;
    const TreeProcess& process = each->process;
    actions.emplace_back(SignalProcess{process.pid, process.started, drain_signal_});
  }
}

// The processes to wait for once every worker has exited. With SignalScope::group, a process
// outside the groups was not signalled and is not waited for.
std::vector<TreeProcess> Supervisor::rest() const {
  if (record_ || phase_ == Phase::lingering || policy_.scope == SignalScope::process) return seen_;
  std::vector<TreeProcess> rest;
  for (const TreeProcess& each : seen_) {
    const bool is_in_group = std::ranges::any_of(
        workers_, [&](const Worker& one) { return one.outcome.pid == each.group; });
    if (is_in_group) rest.push_back(each);
  }
  return rest;
}

void Supervisor::linger(TimePoint now, Actions& actions) {
  phase_.become(Phase::lingering);
  beats_.stop();
  const bool leaves = policy_.stragglers == Stragglers::leave;
  deadline_ = now + (leaves ? Duration{bounds::kill_timeout} : policy_.grace);
  awaits_rest_ = true;
  actions.emplace_back(WatchTree{});
}

// The grace period is over, or the time after TERM.
void Supervisor::end_lingering(TimePoint now, Actions& actions) {
  if (rest_is_ending_ || releases_) return begin_killing(now, /*at_once=*/false, actions);
  rest_is_ending_ = true;
  drain_signal_ = SIGTERM;
  deadline_ = now + stragglers_end_within;
  if (rest_is_told_) actions.emplace_back(Leftover{Leftover::Fate::ended, rest()});
  awaits_record_ = true;
  actions.emplace_back(WatchTree{});
}

void Supervisor::release(Actions& actions) {
  releases_ = true;
  actions.emplace_back(Leftover{Leftover::Fate::released, rest()});
  for (const Worker& each : workers_) {
    if (each.life == Life::ended) actions.emplace_back(Release{each.spec.local_rank});
  }
}

void Supervisor::tell_still_ending(TimePoint now, Actions& actions) {
  still_ending_due_.reset();
  if (phase_ != Phase::draining || *deadline_ - now < still_ending_after) return;
  StillEnding told{.ranks = {}, .others = 0, .left = *deadline_ - now};
  for (const Worker& each : workers_) {
    if (each.life == Life::alive) told.ranks.push_back(each.spec.rank);
  }
  if (told.ranks.empty()) told.others = static_cast<int>(rest().size());
  if (!told.ranks.empty() || told.others > 0) actions.emplace_back(std::move(told));
}

void Supervisor::give_up_the_rest() {
  for (auto& each : workers_) {
    if (each.life == Life::gone) continue;
    each.life = Life::gone;
    each.outcome.given_up = true;
  }
}

void Supervisor::go_on_if_gone(TimePoint now, Actions& actions) {
  if (phase_ == Phase::leaving) return wait_if_all_left(now, actions);
  if (phase_ == Phase::waiting || phase_ >= Phase::sweeping || !all(Life::ended)) return;
  const bool is_known = phase_ == Phase::running && policy_.stragglers != Stragglers::kill;
  if (is_known) return linger(now, actions);
  if (phase_ == Phase::draining && !std::exchange(awaits_rest_, true)) {
    // More processes may have been started since the last TreeSeen.
    actions.emplace_back(WatchTree{});
    return;
  }
  if (all(Life::gone) && releases_) return finish(actions);
  const bool is_draining = phase_ == Phase::draining || phase_ == Phase::lingering;
  const bool waits = is_draining && (!rest_is_seen_ || !rest().empty());
  if (all(Life::gone) && !waits) return sweep_node(now, actions);
  // Only remnants are left, and they were sent KILL: do not wait for them forever.
  if (phase_ == Phase::running) deadline_ = now + bounds::kill_timeout;
}

void Supervisor::sweep(Worker& worker, Actions& actions) {
  if (!std::exchange(worker.is_swept, true)) actions.emplace_back(Sweep{worker.spec.local_rank});
}

void Supervisor::sweep_node(TimePoint now, Actions& actions) {
  phase_.become(Phase::sweeping);
  deadline_ = now + bounds::kill_timeout;
  still_ending_due_.reset();
  actions.emplace_back(SweepNode{});
}

void Supervisor::finish(Actions& actions, bool unswept) {
  phase_.become(Phase::finished);
  deadline_.reset();
  Finished finished{.outcomes = {},
                    .first_failure = first_failure_,
                    .drain_reason = drain_reason_,
                    .unswept = unswept};
  for (const auto& each : workers_) {
    if (!each.was_reported) finished.outcomes.push_back(each.outcome);
  }
  actions.emplace_back(std::move(finished));
}

void Supervisor::send(Worker& worker, int signal, Actions& actions) const {
  worker.outcome.our_signal = signal;
  if (signal == SIGKILL || policy_.scope == SignalScope::group) {
    actions.emplace_back(SignalGroup{worker.spec.local_rank, signal});
  } else {
    actions.emplace_back(SignalMain{worker.spec.local_rank, signal});
  }
}

bool Supervisor::all(Life at_least) const {
  return std::all_of(workers_.begin(), workers_.end(), [&](const Worker& each) {
    const bool follows = each.has_failed && phase_ == Phase::running;
    return each.life >= at_least && !follows;
  });
}

std::vector<WorkerView> Supervisor::workers() const {
  std::vector<WorkerView> views;
  for (const Worker& each : workers_) {
    WorkerView view{each.spec.local_rank, each.outcome.pid, WorkerState::starting, each.since};
    const bool is_ending = each.outcome.our_signal != 0;
    if (each.life == Life::alive)
      view.state = is_ending ? WorkerState::ending : WorkerState::running;
    const bool are_all = phase_ != Phase::running;
    if (each.life == Life::alive && is_ending && are_all) view.since = ending_since_;
    if (each.life >= Life::ended) {
      view.state = each.outcome.good() ? WorkerState::succeeded : WorkerState::failed;
    }
    views.push_back(view);
  }
  return views;
}

std::optional<std::string> Supervisor::check() const {
  const bool is_ending =
      phase_ == Phase::leaving || (phase_ >= Phase::draining && phase_ <= Phase::sweeping);
  if (is_ending && !deadline_) return "the drain has no deadline";
  if (phase_ == Phase::finished && next_deadline()) return "a settled attempt still has a deadline";
  const bool awaits_rest = phase_ == Phase::draining && awaits_rest_;
  const bool is_unswept =
      phase_ >= Phase::running && phase_ < Phase::sweeping && !awaits_rest && !waits();
  if (is_unswept && all(Life::gone)) return "all workers exited, and the sweep did not start";
  if (phase_ >= Phase::sweeping && !all(Life::gone)) return "sweeping while a worker still runs";
  const auto remains = [](const Worker& each) { return each.life == Life::gone || each.remains(); };
  const bool all_left = std::ranges::all_of(workers_, remains);
  if (phase_ == Phase::leaving && all_left && !is_sweeping_)
    return "all workers left the round, and it still waits";
  if (phase_ == Phase::running && first_failure_) return "a worker failed and the others continue";
  for (const Worker& each : workers_) {
    const bool is_alone = policy_.restart_scope == RestartScope::worker;
    if (each.has_failed && !is_alone) return "it waits for the restart of a single worker";
    if (phase_ != Phase::running && (each.next || each.gone_by)) {
      return "a worker is to be restarted while the others are stopped";
    }
  }
  return std::nullopt;
}

Supervisor::Worker& Supervisor::worker(LocalRank local_rank) {
  const auto index = static_cast<std::size_t>(local_rank.value);
  assert(index < workers_.size() && workers_[index].spec.local_rank == local_rank);
  return workers_[index];
}

}  // namespace cpprun
