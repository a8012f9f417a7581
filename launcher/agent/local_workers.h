// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// This node's workers (LocalWorkers), and their statistics while a client watches the job
// (WorkerStatsReporter).

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/agent_actions.h"
#include "launcher/config.h"
#include "launcher/failure/diagnosis.h"
#include "launcher/plan/plan.h"
#include "launcher/workers/supervisor.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"

namespace cpprun {

// Reports worker statistics while a client watches the job. If they do not all fit into one frame,
// workers whose state changed go first and the others take turns. Keeps the previous samples,
// because a rate is the difference of two samples.
class WorkerStatsReporter {
 public:
  // A new round: forget the samples of the previous workers.
  void begin() { memories_.clear(); }
  // watch(): a client watches, so report every change for `length`. changed(): a worker's state
  // changed. Both return whether to sample the workers now. Only one sample is pending at a time;
  // it covers all changes up to when it is taken.
  bool watch(TimePoint now, Duration length);
  bool changed(TimePoint now);
  // The sample has arrived; returns the message to send.
  link::Status tell(TimePoint now, RoundNumber round, const std::vector<WorkerView>& workers,
                    const std::vector<WorkerSight>& sights);
  // The sample was discarded.
  void nothing_seen() { is_looking_ = false; }

 private:
  struct Memory {
    WorkerState told = WorkerState::starting;
    std::int64_t step = 0;
    TimePoint beat{};
    std::optional<std::int64_t> rate = {};  // thousandths of a step per second
    Duration cpu{};
    TimePoint looked{};
  };
  link::WorkerStats figures_of(TimePoint now, const WorkerView& view, const WorkerSight& sight);
  std::vector<std::size_t> in_turn(const std::vector<WorkerView>& workers) const;

  TimePoint until_{};
  bool is_looking_ = false;
  std::map<LocalRank, Memory> memories_;
  std::size_t next_ = 0;  // the next worker in turn
};

// This node's workers in the current round, or in the last one: their supervisor, the evidence of
// their failures, and what was requested of them. It turns the supervisor's decisions into the
// agent's actions. It knows neither the link nor whether this node still has its seat.
class LocalWorkers {
 public:
  using Actions = std::vector<agent::Action>;

  // How the workers of a round ended.
  struct End {
    bool succeeded = false;                  // all exited with 0, and nothing had to be stopped
    std::optional<link::Failed> left_early;  // to be reported if the other nodes missed it
    std::optional<events::JobEnded> exit;    // see exit_when_gone()
  };

  LocalWorkers(EndPolicy policy, std::optional<HeartbeatTimeout> beat_timeout)
      : policy_(policy), beat_timeout_(beat_timeout) {}

  // Starts the workers of a new round. `unreachable_interface`: a warning about an unreachable
  // interface, as evidence for failures; may be empty.
  void begin(TimePoint now, std::vector<WorkerSpec> specs, PendingFailures::Attempt place,
             std::string unreachable_interface, Actions& actions);

  // After these two, take_end() may have a result.
  void handle(TimePoint now, const supervisor::ProcessEvent& event, Actions& actions);
  void advance(TimePoint now, Actions& actions);
  std::optional<TimePoint> next_deadline() const;
  // The reply to Examine. Returns what to report to the coordinator. take_end() may have a result.
  std::optional<link::Failed> examined(Evidence evidence, Actions& actions);
  // Once no process is left and the evidence of every failure is in; returned once. So every
  // failure is reported before the end is: the coordinator would attribute a later one to another
  // round.
  std::optional<End> take_end();

  void stop(TimePoint now, const std::string& reason, int signal, Actions& actions);
  void kill(TimePoint now, const std::string& reason, Actions& actions) {
    tell(now, supervisor::Insist{reason}, actions);
  }
  // forward(): to all processes. deliver(): only to workers that handle it, because it would
  // terminate the others.
  void forward(TimePoint now, int signal, Actions& actions) {
    tell(now, supervisor::Forward{signal}, actions);
  }
  void deliver(TimePoint now, int signal, Actions& actions) {
    tell(now, supervisor::Deliver{signal}, actions);
  }
  // Delivers `signal` at `at`, unless the workers are being stopped by then.
  void save_at(TimePoint at, int signal) { saving_ = Saving{signal, at}; }
  // This node was suspended for that long. The workers' timeouts exclude that time, and the workers
  // are paused until resume() or stop().
  void pause(TimePoint now, Duration asleep, Actions& actions);
  void resume(TimePoint now, Actions& actions);
  // They are being killed, so they need not be resumed.
  void forget_pause() { are_paused_ = false; }

  // This node was asked to stop by a signal, or the round is broken: what ends later was not the
  // first failure.
  void stop_requested(TimePoint now, int signal);
  void drain_requested(TimePoint now) { pending_failures_.drained(now); }
  // When the workers are gone this node exits like that, instead of staying in the job. Also set
  // if a worker could not be killed: the node must not report that it has drained.
  void exit_when_gone(events::JobEnded exit) { exit_ = std::move(exit); }
  bool exits_when_gone() const { return exit_.has_value(); }

  // A client watches the job for `length` from now on.
  void watch(TimePoint now, Duration length, Actions& actions);
  // A worker's state may have changed: sample the workers if a client watches.
  void sample_if_watched(TimePoint now, Actions& actions);
  link::Status sampled(TimePoint now, const std::vector<WorkerSight>& sights);
  void sample_discarded() { stats_.nothing_seen(); }

  // The message that all of them are gone, with the readings from when the drain began.
  const link::Drained& drained() const { return drained_; }

  // Returns the broken invariant, if any. Called while the round's workers have not all ended.
  std::optional<std::string> check() const;

 private:
  struct Saving {
    int signal = 0;
    TimePoint at{};
  };

  // The supervisor's clock: excludes the time this node was suspended.
  TimePoint worker_time(TimePoint now) const { return now - asleep_; }
  void tell(TimePoint now, const supervisor::Event& event, Actions& actions);
  void apply(TimePoint now, const Supervisor::Actions& from, Actions& actions);
  void finished(const supervisor::Finished& finished, Actions& actions);

  EndPolicy policy_;
  std::optional<HeartbeatTimeout> beat_timeout_;
  std::optional<Supervisor> supervisor_;  // none before the first round
  PendingFailures::Attempt place_;
  std::string unreachable_interface_;
  PendingFailures pending_failures_;
  std::optional<supervisor::Finished> finished_;  // set until all evidence has arrived
  std::optional<events::JobEnded> exit_;
  link::Drained drained_;
  std::optional<Saving> saving_;
  bool are_paused_ = false;
  Duration asleep_{};              // time suspended since the workers were started
  std::optional<int> stopped_by_;  // the signal that asked this node to stop
  WorkerStatsReporter stats_;
};

}  // namespace cpprun
