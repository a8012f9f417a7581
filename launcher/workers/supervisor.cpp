// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/supervisor.h"

#include <algorithm>
#include <cassert>
#include <csignal>
#include <set>
#include <utility>

#include "proto/bounds.h"
#include "proto/signal_names.h"

namespace cpprun {

using namespace supervisor;

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

Supervisor::Actions Supervisor::start(TimePoint now) {
  assert(phase_ == Phase::idle && "an attempt starts once");
  phase_.become(Phase::running);
  Actions actions;
  for (auto& worker : workers_) {
    worker.since = now;
    actions.emplace_back(Spawn{worker.spec});
  }
  go_on_if_gone(now, actions);
  return actions;
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
  if (still_ending_due_ && *still_ending_due_ <= now) tell_still_ending(now, actions);
  if (!deadline_ || now < *deadline_) return actions;
  deadline_.reset();
  switch (phase_) {
    case Phase::draining:
      begin_killing(now, false, actions);
      break;
    case Phase::lingering:
      end_lingering(now, actions);
      break;
    case Phase::sweeping:
      finish(actions, /*unswept=*/true);
      break;
    case Phase::running:
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
  for (const auto& each : {beat, still_ending_due_}) {
    if (each && (!soonest || *each < *soonest)) soonest = each;
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
  if (phase_ == Phase::draining) send(started, drain_signal_, actions);
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
  const bool failed_by_itself = was_running && !is_good && !is_asked;
  const bool kills_stragglers = was_running && is_good && policy_.stragglers == Stragglers::kill;
  if (phase_ == Phase::killing || failed_by_itself || kills_stragglers) sweep(ended, actions);
  signal_down(now, actions);
  go_on_if_gone(now, actions);
}

void Supervisor::on(TimePoint now, const GroupGone& event, Actions& actions) {
  auto& gone = worker(event.local_rank);
  if (gone.life != Life::ended) return;
  gone.life = Life::gone;
  go_on_if_gone(now, actions);
}

void Supervisor::on(TimePoint, const NodeSwept&, Actions& actions) {
  if (phase_ == Phase::sweeping) finish(actions);
}

void Supervisor::on(TimePoint now, const TreeSeen& event, Actions& actions) {
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
  fail(now, outcome, "hangs", actions);
}

void Supervisor::on(TimePoint now, const Stop& event, Actions& actions) {
  if ((phase_ != Phase::running && phase_ != Phase::lingering) || releases_) return;
  begin_drain(now, event.reason, event.signal, actions);
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
  if (phase_ == Phase::running || phase_ == Phase::lingering) {
    phase_.become(Phase::draining);
    ending_since_ = now;
    beats_.stop();
    drain_signal_ = SIGKILL;
    drain_reason_ = event.reason;
    actions.emplace_back(Draining{event.reason, SIGKILL});
  }
  if (phase_ == Phase::draining) begin_killing(now, true, actions);
}

// Only an exit that was not requested, before anything was stopped, is a failure of this node.
void Supervisor::judge_end(TimePoint now, const Worker& ended, Actions& actions) {
  if (phase_ != Phase::running || ended.outcome.good()) return;
  fail(now, ended.outcome, "failed", actions);
}

void Supervisor::fail(TimePoint now, const Outcome& outcome, const std::string& what,
                      Actions& actions) {
  first_failure_ = outcome;
  actions.emplace_back(Failed{outcome});
  begin_drain(now, "rank " + std::to_string(outcome.rank.value) + " " + what, SIGTERM, actions);
}

void Supervisor::begin_drain(TimePoint now, const std::string& reason, int signal,
                             Actions& actions) {
  const bool lingered = phase_ == Phase::lingering;
  phase_.become(Phase::draining);
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
  if (!record_ || (phase_ != Phase::draining && phase_ != Phase::lingering)) return;
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
  if (phase_ >= Phase::sweeping || !all(Life::ended)) return;
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
  for (const auto& each : workers_) finished.outcomes.push_back(each.outcome);
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
  return std::all_of(workers_.begin(), workers_.end(),
                     [&](const Worker& each) { return each.life >= at_least; });
}

std::vector<WorkerView> Supervisor::workers() const {
  std::vector<WorkerView> views;
  for (const Worker& each : workers_) {
    WorkerView view{each.spec.local_rank, each.outcome.pid, WorkerState::starting, each.since};
    const bool is_ending = each.outcome.our_signal != 0;
    if (each.life == Life::alive)
      view.state = is_ending ? WorkerState::ending : WorkerState::running;
    if (each.life == Life::alive && is_ending) view.since = ending_since_;
    if (each.life >= Life::ended) {
      view.state = each.outcome.good() ? WorkerState::succeeded : WorkerState::failed;
    }
    views.push_back(view);
  }
  return views;
}

std::optional<std::string> Supervisor::check() const {
  const bool is_ending = phase_ >= Phase::draining && phase_ <= Phase::sweeping;
  if (is_ending && !deadline_) return "the drain has no deadline";
  if (phase_ == Phase::finished && next_deadline()) return "a settled attempt still has a deadline";
  const bool awaits_rest = phase_ == Phase::draining && awaits_rest_;
  const bool is_unswept = phase_ >= Phase::running && phase_ < Phase::sweeping && !awaits_rest;
  if (is_unswept && all(Life::gone)) return "all workers exited, and the sweep did not start";
  if (phase_ >= Phase::sweeping && !all(Life::gone)) return "sweeping while a worker still runs";
  if (phase_ == Phase::running && first_failure_) return "a worker failed and the others continue";
  return std::nullopt;
}

Supervisor::Worker& Supervisor::worker(LocalRank local_rank) {
  const auto index = static_cast<std::size_t>(local_rank.value);
  assert(index < workers_.size() && workers_[index].spec.local_rank == local_rank);
  return workers_[index];
}

}  // namespace cpprun
