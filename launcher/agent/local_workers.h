// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// This node's workers (LocalWorkers), and their statistics while a client watches the job
// (WorkerStatsReporter).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/agent_actions.h"
#include "launcher/agent/hang_reports.h"
#include "launcher/config.h"
#include "launcher/failure/diagnosis.h"
#include "launcher/hang/progress_monitor.h"
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
    bool waits = false;                      // some remain, and wait for the next round
    std::optional<link::Failed> left_early;  // to be reported if the other nodes missed it
    std::optional<events::JobEnded> exit;    // see exit_when_gone()
  };

  LocalWorkers(EndPolicy policy, std::optional<HeartbeatTimeout> beat_timeout,
               std::optional<Duration> hang_timeout = {})
      : policy_(policy), beat_timeout_(beat_timeout), progress_(hang_timeout) {}

  // Some of the last round's workers wait for their places in the next one.
  bool wait() const { return supervisor_ && supervisor_->waits(); }
  // The specs as begin() takes them: workers that remain keep their files.
  std::vector<WorkerSpec> with_files_of_remaining(std::vector<WorkerSpec> specs) const {
    return wait() ? supervisor_->with_files_of_remaining(std::move(specs)) : specs;
  }
  // By local rank; empty unless wait().
  std::vector<LocalRank> remaining() const;
  // Starts the workers of a new round, except those that remain. `unreachable_interface`: a warning
  // about an unreachable interface, as evidence for failures; may be empty.
  void begin(TimePoint now, std::vector<WorkerSpec> specs, PendingFailures::Attempt place,
             std::string unreachable_interface, bool captures_timeouts, Actions& actions);

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

  // Starts that worker again, which has failed; the others run on.
  void restart(TimePoint now, const link::RestartWorker& message, WorkerSpec spec,
               Actions& actions);
  void stop(TimePoint now, const std::string& reason, int signal, Actions& actions);
  void kill(TimePoint now, const std::string& reason, Actions& actions) {
    release(now, actions);
    tell(now, supervisor::Insist{reason}, actions);
  }
  // The round is broken: what ends later was not the first failure.
  void drain(TimePoint now, const link::Drain& drain, Actions& actions);
  // With SIGTERM, because other nodes stop theirs.
  void stop_after_capture(TimePoint now, const std::string& reason, Actions& actions) {
    end(now, supervisor::Stop{reason}, actions);
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

  // This node was asked to stop by a signal: what ends later was not the first failure.
  void stop_requested(TimePoint now, int signal);
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

  // A process group of PyTorch timed out. Returns whether the coordinator has to know, which then
  // requests a capture, unless it is older. The capture comes first: exits of workers and
  // stop_after_capture() wait for it, for capture_max at most.
  bool timed_out(TimePoint now);
  static constexpr Duration capture_max = std::chrono::seconds(4);
  // The reply to ReadLastLines. If timed_out() was called for it, the exit still waits.
  void last_lines_read(TimePoint now, Actions& actions) {
    if (std::exchange(is_reading_lines_, false)) release(now, actions);
  }
  static constexpr Duration last_lines_max = std::chrono::seconds(1);
  // The reply to the capture with that number was sent.
  void captured(TimePoint now, std::uint64_t number, Actions& actions) {
    if (number != 0 && number == awaited_capture_) release(now, actions);
  }

  // About hangs: see HangReports and ProgressMonitor.
  void progress_seen(TimePoint now, const std::vector<ProgressSigns>& signs, Actions& actions);
  // Returns the reply, if it was requested by the coordinator.
  std::vector<link::Captured> observed(TimePoint now, const agent::WorkersObserved& event);
  void capture(TimePoint now, const link::Capture& capture, Actions& actions);
  void judged(TimePoint now, const link::Verdict& verdict, const link::Sealed& sealed,
              Actions& actions);
  void begin_link() { hang_reports_.begin_link(); }
  void add_to(link::Heartbeat& beat, TimePoint now) {
    hang_reports_.add_to(beat, now, progress_.quiet(now), progress_.timeout());
  }
  bool has_news(TimePoint now, bool is_local) const {
    return hang_reports_.has_news(now, progress_.quiet(now), is_local);
  }

  bool has_restarted_alone() const { return !attempts_.empty(); }
  // All were started, none has failed, and nothing is due or awaited about them.
  bool is_steady() const {
    return supervisor_ && supervisor_->is_steady() && !finished_ && pending_failures_.complete() &&
           !exit_ && !saving_ && !are_paused_ && !waits_until_;
  }
  std::vector<WorkerView> views() const { return supervisor_->workers(); }
  TimePoint started_at(LocalRank rank) const { return pending_failures_.started_at(rank); }
  const HeartbeatMonitor::StepTimes& step_times() const { return supervisor_->step_times(); }
  void learn(const HeartbeatMonitor::StepTimes& times) { supervisor_->learn(times); }

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
  void tell_after_capture(TimePoint now, supervisor::Event event, Actions& actions);
  void end(TimePoint now, supervisor::Event stop, Actions& actions);
  void release(TimePoint now, Actions& actions);
  bool may_show_timeout(TimePoint now, const supervisor::Exited& exited) const;
  void apply(TimePoint now, const Supervisor::Actions& from, Actions& actions);
  void prepare_restarts(const Supervisor::Actions& from, Actions& actions) const;
  void finished(const supervisor::Finished& finished, Actions& actions);
  void examine_others(const std::vector<Outcome>& outcomes, Actions& actions);

  EndPolicy policy_;
  std::optional<HeartbeatTimeout> beat_timeout_;
  std::optional<Supervisor> supervisor_;  // none before the first round
  PendingFailures::Attempt place_;
  std::string unreachable_interface_;
  PendingFailures pending_failures_;
  std::set<LocalRank> failed_;                    // reported, and not started again since
  std::map<LocalRank, int> attempts_;             // how often each was restarted alone
  std::optional<supervisor::Finished> finished_;  // set until all evidence has arrived
  bool has_left_ = false;                         // finished_ is that of supervisor::Waiting
  std::optional<events::JobEnded> exit_;
  link::Drained drained_;
  std::optional<Saving> saving_;
  bool are_paused_ = false;
  Duration asleep_{};              // time suspended since the workers were started
  std::optional<int> stopped_by_;  // the signal that asked this node to stop
  WorkerStatsReporter stats_;
  ProgressMonitor progress_;
  HangReports hang_reports_;
  bool is_observing_ = false;  // the workers' stacks are being read for it
  bool is_ending_ = false;     // the workers are being stopped
  // --- a process group timed out
  bool captures_timeouts_ = false;            // the coordinator requests a capture for it
  std::vector<StreamTarget> stderr_targets_;  // by local rank
  bool is_reading_lines_ = false;             // `waits_until_` is for the reply to ReadLastLines
  std::optional<TimePoint> timed_out_at_;
  std::optional<TimePoint> waits_until_;  // while the capture for it comes first
  std::uint64_t awaited_capture_ = 0;     // its number; 0: not requested yet
  std::vector<supervisor::Event> waiting_;
  bool missed_heartbeats_ = false;
};

}  // namespace cpprun
