// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/supervisor.h"

#include <algorithm>
#include <cassert>
#include <csignal>
#include <utility>

#include "proto/bounds.h"

namespace cpprun {

using namespace supervisor;

Supervisor::Supervisor(std::vector<WorkerSpec> specs, Duration grace,
                       std::optional<BeatTimeout> beat_timeout)
    : grace_(grace), beats_(beat_timeout) {
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
  if (phase_ == Phase::settled) return actions;
  std::visit([&](const auto& what) { on(now, what, actions); }, event);
  return actions;
}

Supervisor::Actions Supervisor::advance(TimePoint now) {
  Actions actions;
  if (phase_ == Phase::running && beats_.take_due(now)) actions.emplace_back(LookAtBeats{});
  if (!deadline_ || now < *deadline_) return actions;
  deadline_.reset();
  switch (phase_) {
    case Phase::draining:
      begin_killing(now, false, actions);
      break;
    case Phase::sweeping:
      settle(actions, /*unswept=*/true);
      break;
    case Phase::running:
    case Phase::killing:
      give_up_the_rest();
      go_on_if_gone(now, actions);
      break;
    case Phase::idle:
    case Phase::settled:
      break;
  }
  return actions;
}

std::optional<TimePoint> Supervisor::next_deadline() const {
  const auto beat = phase_ == Phase::running ? beats_.next_deadline() : std::nullopt;
  if (!beat || !deadline_) return beat ? beat : deadline_;
  return std::min(*beat, *deadline_);
}

void Supervisor::on(TimePoint now, const Started& event, Actions& actions) {
  auto& started = worker(event.local_rank);
  if (started.life != Life::asked) return;
  started.life = Life::alive;
  started.since = now;
  started.outcome.pid = event.pid;
  if (phase_ == Phase::running) beats_.started(now, event.local_rank);
  // The end began while this one was still being started: it must not miss it.
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
  // The others learn of the failure before this one's remains are looked after: they compute on.
  judge_end(now, ended, actions);
  actions.emplace_back(Sweep{event.local_rank});
  go_on_if_gone(now, actions);
}

void Supervisor::on(TimePoint now, const GroupGone& event, Actions& actions) {
  auto& gone = worker(event.local_rank);
  if (gone.life != Life::ended) return;
  gone.life = Life::gone;
  go_on_if_gone(now, actions);
}

void Supervisor::on(TimePoint, const NodeSwept&, Actions& actions) {
  if (phase_ == Phase::sweeping) settle(actions);
}

// What it was sent to end it with is its end as far as the others are told: it may take a while.
void Supervisor::on(TimePoint now, const BeatsSeen& event, Actions& actions) {
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
  if (phase_ != Phase::running) return;
  begin_drain(now, event.reason, event.signal, actions);
}

void Supervisor::on(TimePoint, const Forward& event, Actions& actions) {
  // Not `send`: if a worker ends of it, that was no end we asked for.
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
  if (phase_ == Phase::running) {
    phase_.become(Phase::draining);
    ending_since_ = now;
    beats_.stop();
    drain_signal_ = SIGKILL;
    drain_reason_ = event.reason;
    actions.emplace_back(Draining{event.reason, SIGKILL});
  }
  if (phase_ == Phase::draining) begin_killing(now, true, actions);
}

// Only an end that nobody asked for, while nothing was ending yet, is a failure of this node.
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
  phase_.become(Phase::draining);
  ending_since_ = now;
  beats_.stop();
  drain_signal_ = signal;
  drain_reason_ = reason;
  deadline_ = now + grace_;
  actions.emplace_back(Draining{reason, signal});
  for (auto& each : workers_) {
    if (each.life == Life::alive) send(each, signal, actions);
  }
}

void Supervisor::begin_killing(TimePoint now, bool at_once, Actions& actions) {
  phase_.become(Phase::killing);
  deadline_ = now + bounds::kill_patience;
  for (auto& each : workers_) {
    if (each.life != Life::alive) continue;
    actions.emplace_back(Killing{each.spec.local_rank, at_once});
    send(each, SIGKILL, actions);
  }
}

void Supervisor::give_up_the_rest() {
  for (auto& each : workers_) {
    if (each.life == Life::gone) continue;
    each.life = Life::gone;
    each.outcome.given_up = true;
  }
}

void Supervisor::go_on_if_gone(TimePoint now, Actions& actions) {
  if (phase_ == Phase::sweeping || phase_ == Phase::settled) return;
  if (all(Life::gone)) {
    phase_.become(Phase::sweeping);
    deadline_ = now + bounds::kill_patience;
    actions.emplace_back(SweepNode{});
  } else if (phase_ == Phase::running && all(Life::ended)) {
    // Only remains are left, and they were sent KILL: they have no claim to unbounded patience.
    deadline_ = now + bounds::kill_patience;
  }
}

void Supervisor::settle(Actions& actions, bool unswept) {
  phase_.become(Phase::settled);
  deadline_.reset();
  Settled settled{.outcomes = {},
                  .first_failure = first_failure_,
                  .drain_reason = drain_reason_,
                  .unswept = unswept};
  for (const auto& each : workers_) settled.outcomes.push_back(each.outcome);
  actions.emplace_back(std::move(settled));
}

void Supervisor::send(Worker& worker, int signal, Actions& actions) {
  worker.outcome.our_signal = signal;
  actions.emplace_back(SignalGroup{worker.spec.local_rank, signal});
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
  const bool is_ending = phase_ == Phase::draining || phase_ == Phase::killing;
  if ((is_ending || phase_ == Phase::sweeping) && !deadline_) return "its end has no bound";
  if (phase_ == Phase::settled && deadline_) return "it has settled and still waits";
  if ((is_ending || phase_ == Phase::running) && all(Life::gone)) {
    return "everybody is gone and nothing is swept";
  }
  if (phase_ >= Phase::sweeping && !all(Life::gone)) return "it sweeps while a worker is there";
  if (phase_ == Phase::running && first_failure_) return "a worker has failed and the others go on";
  return std::nullopt;
}

Supervisor::Worker& Supervisor::worker(LocalRank local_rank) {
  const auto index = static_cast<std::size_t>(local_rank.value);
  assert(index < workers_.size() && workers_[index].spec.local_rank == local_rank);
  return workers_[index];
}

}  // namespace cpprun
