// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One attempt of one node's workers: run, drain, finish.
//
//   running    Every worker was asked to start. A worker that exits with 0 is done and the others
//              continue. The first failed exit, failed start or missed heartbeat
//              (heartbeat_monitor.h), or Stop, leads to:
//   draining   Every worker was sent a signal (TERM, or the one in Stop), and the node has one
//              grace period from that moment. The signal goes down each process tree level by
//              level. The main process gets it first. A process that was in the tree when draining
//              began gets it once its parent has exited or only waits for it (wrapper_pause), and
//              once the processes whose output it reads have exited. A worker that starts only now
//              gets the signal at once. When every process has exited: sweeping. When the grace
//              period is over, or on Insist:
//   killing    All remaining processes were sent KILL. A worker that is not gone within
//              bounds::kill_timeout is stuck in the kernel; it is given up and reported.
//   lingering  Every worker exited with 0, and processes that they started still run. Those have
//              the grace period, then get TERM, then KILL (or as Stragglers says).
//   sweeping   All workers and their groups are gone; now kill their other descendants.
//   finished   No process is left. Reported exactly once; every later event is ignored.
//
// The group of a worker that failed by itself is swept at once, because a leftover process must not
// hold a device. The groups of the other workers are swept when their processes have exited or the
// grace period is over. Only then does a worker count as gone.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/plan.h"
#include "launcher/workers/heartbeat_monitor.h"
#include "launcher/workers/spawn.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "proto/state_machine.h"

namespace cpprun {

// How one worker exited.
struct Outcome {
  LocalRank local_rank;
  Rank rank;
  int pid = 0;                            // 0: it was never started
  std::optional<SpawnError> spawn_error;  // why it was never started
  link::ExitStatus status;                // 127 or 126 if it was never started
  int our_signal = 0;                     // the last signal we had sent before it exited; 0: none
  bool given_up = false;                  // it did not exit in time after KILL and may still run
  WallTime time{};                        // when the exit was noticed
  // Set if the worker hung: the time since its last heartbeat when that was detected and it was
  // stopped.
  std::optional<Duration> hung_for = {};
  friend bool operator==(const Outcome&, const Outcome&) = default;

  bool good() const { return !given_up && status == link::ExitStatus{}; }
  // Whether it died of the very signal that we sent.
  bool obeyed() const {
    return our_signal != 0 && status == link::ExitStatus{.signalled = true, .value = our_signal};
  }
};

// One worker as shown to clients.
struct WorkerView {
  LocalRank local_rank;
  int pid = 0;
  WorkerState state = WorkerState::starting;
  TimePoint since{};
  friend bool operator==(const WorkerView&, const WorkerView&) = default;
};

// After the stop signal, workers that still run are listed after this time.
inline constexpr auto still_ending_after = std::chrono::seconds(1);
// How long a wrapper may outlive the signal, but at most a quarter of the grace period, before the
// process that it waits for gets the signal as well.
inline constexpr Duration wrapper_pause = std::chrono::seconds(2);
// Processes that outlived a successful exit and the grace period get TERM. KILL follows after this
// time.
inline constexpr auto stragglers_end_within = std::chrono::seconds(3);

// How workers are stopped.
struct EndPolicy {
  Duration grace{};  // between the signal and KILL, for all workers of the node
  SignalScope scope = SignalScope::process;
  Stragglers stragglers = Stragglers::wait;
};

// A running process that a worker started, directly or indirectly.
struct TreeProcess {
  int pid = 0;
  std::uint64_t started = 0;  // identifies the process together with the pid
  int parent = 0;
  int group = 0;
  int session = 0;
  std::string command = {};
  std::uint64_t in_pipe = 0;  // pipe inodes of stdin, stdout and stderr; 0: not a pipe
  std::uint64_t out_pipe = 0;
  std::uint64_t err_pipe = 0;
  bool is_waited_for = false;  // its parent is blocked until it, or any child, has exited
  friend bool operator==(const TreeProcess&, const TreeProcess&) = default;
};

namespace supervisor {

// --- events from the driver ----------------------------------------------------------------------

struct Started {
  LocalRank local_rank;
  int pid = 0;
  friend bool operator==(const Started&, const Started&) = default;
};

struct SpawnFailed {
  LocalRank local_rank;
  SpawnError error;
  WallTime time{};
  friend bool operator==(const SpawnFailed&, const SpawnFailed&) = default;
};

// The worker's process exited. It is not reaped yet, so that its process group id stays reserved.
struct Exited {
  LocalRank local_rank;
  link::ExitStatus status;
  WallTime time{};
  friend bool operator==(const Exited&, const Exited&) = default;
};

// The reply to Sweep: that worker's group is empty.
struct GroupGone {
  LocalRank local_rank;
  friend bool operator==(const GroupGone&, const GroupGone&) = default;
};

// The reply to SweepNode: no descendant of these workers is left.
struct NodeSwept {
  friend bool operator==(const NodeSwept&, const NodeSwept&) = default;
};

// The reply to WatchTree: the processes that run now. May be empty.
struct TreeSeen {
  std::vector<TreeProcess> processes = {};
  friend bool operator==(const TreeSeen&, const TreeSeen&) = default;
};

// The reply to ReadHeartbeats.
struct HeartbeatsSeen {
  std::vector<HeartbeatReading> readings;
  WallTime time{};
  friend bool operator==(const HeartbeatsSeen&, const HeartbeatsSeen&) = default;
};

// Stop all workers. `reason` completes "stopping the workers: …".
struct Stop {
  std::string reason;
  int signal = 15;
  friend bool operator==(const Stop&, const Stop&) = default;
};

// Forward this signal unchanged to all workers. It is not meant to stop them.
struct Forward {
  int signal = 0;
  friend bool operator==(const Forward&, const Forward&) = default;
};

// Send this signal to the workers themselves, but not to their children. It is not meant to stop
// them. Ignored once the workers are being stopped.
struct Deliver {
  int signal = 0;
  friend bool operator==(const Deliver&, const Deliver&) = default;
};

// A second Ctrl-C: kill at once. Also starts the stop if nothing had started it.
struct Insist {
  std::string reason;
  friend bool operator==(const Insist&, const Insist&) = default;
};

// --- actions for the driver, in order ------------------------------------------------------------

// The reply is Started or SpawnFailed.
struct Spawn {
  WorkerSpec spec;
  friend bool operator==(const Spawn&, const Spawn&) = default;
};

struct SignalGroup {
  LocalRank local_rank;
  int signal = 0;
  friend bool operator==(const SignalGroup&, const SignalGroup&) = default;
};

// To the worker's own process. Not sent if that would die of it for lack of a handler.
struct SignalWorker {
  LocalRank local_rank;
  int signal = 0;
  friend bool operator==(const SignalWorker&, const SignalWorker&) = default;
};

// To the worker's main process, which is continued if it is stopped.
struct SignalMain {
  LocalRank local_rank;
  int signal = 0;
  friend bool operator==(const SignalMain&, const SignalMain&) = default;
};

// To one process of a worker's tree, if it is still the same one. Continued if it is stopped.
struct SignalProcess {
  int pid = 0;
  std::uint64_t started = 0;
  int signal = 0;
  friend bool operator==(const SignalProcess&, const SignalProcess&) = default;
};

// Reply with TreeSeen now, and again whenever a process has exited, until SweepNode or a Spawn.
struct WatchTree {
  friend bool operator==(const WatchTree&, const WatchTree&) = default;
};

// Reap a worker that exited, and leave running what it started. The reply is GroupGone.
struct Release {
  LocalRank local_rank;
  friend bool operator==(const Release&, const Release&) = default;
};

// Send KILL to the rest of the group of a worker that exited, and reap it. The reply is GroupGone.
struct Sweep {
  LocalRank local_rank;
  friend bool operator==(const Sweep&, const Sweep&) = default;
};

// Send KILL to every remaining descendant of the workers. The reply is NodeSwept.
struct SweepNode {
  friend bool operator==(const SweepNode&, const SweepNode&) = default;
};

// Read the workers' heartbeat files. The reply is HeartbeatsSeen.
struct ReadHeartbeats {
  friend bool operator==(const ReadHeartbeats&, const ReadHeartbeats&) = default;
};

// This node's first failure, reported at once while the other workers still have to be stopped.
struct Failed {
  Outcome outcome;
  friend bool operator==(const Failed&, const Failed&) = default;
};

// The drain has begun, for the console. `reason` completes "stopping the workers: …".
struct Draining {
  std::string reason;
  int signal = 0;
  friend bool operator==(const Draining&, const Draining&) = default;
};

// For the console: what still runs one second after the signal.
struct StillEnding {
  std::vector<Rank> ranks = {};  // workers
  int others = 0;                // if no worker runs: processes started by workers
  Duration left{};               // of the grace period
  friend bool operator==(const StillEnding&, const StillEnding&) = default;
};

// For the console: processes started by workers have outlived them.
struct Leftover {
  enum class Fate {
    awaited,   // after success: they have the grace period
    released,  // after success: they keep running
    ended,     // after success: the grace period is over, TERM was sent
    killed,    // in all other cases: the grace period is over
  };
  Fate fate = Fate::awaited;
  std::vector<TreeProcess> processes = {};
  friend bool operator==(const Leftover&, const Leftover&) = default;
};

// For the console: a worker was sent KILL, because the grace period was over or there was none.
struct Killing {
  LocalRank local_rank;
  bool at_once = false;
  friend bool operator==(const Killing&, const Killing&) = default;
};

// No process is left. One outcome for every spec, in order of local rank. No drain_reason: all
// workers exited with 0.
struct Finished {
  std::vector<Outcome> outcomes;
  std::optional<Outcome> first_failure;
  std::string drain_reason;  // empty if nothing had to be stopped
  bool unswept = false;      // a process started by workers could not be killed
  friend bool operator==(const Finished&, const Finished&) = default;
};

using Event = std::variant<Started, SpawnFailed, Exited, GroupGone, NodeSwept, TreeSeen,
                           HeartbeatsSeen, Stop, Forward, Deliver, Insist>;
using Action = std::variant<Spawn, SignalGroup, SignalWorker, SignalMain, SignalProcess, WatchTree,
                            Release, Sweep, SweepNode, ReadHeartbeats, Failed, Draining,
                            StillEnding, Leftover, Killing, Finished>;

// The events and actions about processes. The others are exchanged between a supervisor and its
// agent.
using ProcessEvent =
    std::variant<Started, SpawnFailed, Exited, GroupGone, NodeSwept, TreeSeen, HeartbeatsSeen>;
using ProcessAction = std::variant<Spawn, SignalGroup, SignalWorker, SignalMain, SignalProcess,
                                   WatchTree, Release, Sweep, SweepNode, ReadHeartbeats>;

}  // namespace supervisor

class Supervisor {
 public:
  using Event = supervisor::Event;
  using Action = supervisor::Action;
  using Actions = std::vector<Action>;

  // Without a timeout, heartbeats are not checked.
  Supervisor(std::vector<WorkerSpec> specs, EndPolicy policy,
             std::optional<HeartbeatTimeout> beat_timeout = std::nullopt);

  // Requests the start of every worker. Called once, before any event.
  Actions start(TimePoint now);
  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  // Returns the broken invariant, if any.
  std::optional<std::string> check() const;

  bool finished() const { return phase_ == Phase::finished; }
  // In order of local rank.
  std::vector<WorkerView> workers() const;

 private:
  enum class Phase { idle, running, draining, lingering, killing, sweeping, finished };
  static constexpr PhaseStep<Phase> steps[] = {
      {Phase::idle, Phase::running},       {Phase::running, Phase::draining},
      {Phase::running, Phase::lingering},  // every worker exited with 0
      {Phase::running, Phase::sweeping},   // the same, but stragglers are not awaited
      {Phase::lingering, Phase::draining}, {Phase::lingering, Phase::killing},
      {Phase::lingering, Phase::sweeping}, {Phase::lingering, Phase::finished},
      {Phase::draining, Phase::killing},   {Phase::draining, Phase::sweeping},
      {Phase::killing, Phase::sweeping},   {Phase::sweeping, Phase::finished}};
  enum class Life { asked, alive, ended, gone };

  struct Worker {
    WorkerSpec spec;
    Life life = Life::asked;
    Outcome outcome;
    TimePoint since{};  // since when it is in `life`
    bool is_swept = false;
  };

  // A process of the trees as they were when the stop began.
  struct Recorded {
    TreeProcess process;
    int parent = 0;  // the process or worker whose exit it waits for; 0: all workers
    bool signalled = false;
  };

  Worker& worker(LocalRank local_rank);
  bool all(Life at_least) const;
  void on(TimePoint now, const supervisor::Started& event, Actions& actions);
  void on(TimePoint now, const supervisor::SpawnFailed& event, Actions& actions);
  void on(TimePoint now, const supervisor::Exited& event, Actions& actions);
  void on(TimePoint now, const supervisor::GroupGone& event, Actions& actions);
  void on(TimePoint now, const supervisor::NodeSwept& event, Actions& actions);
  void on(TimePoint now, const supervisor::TreeSeen& event, Actions& actions);
  void on(TimePoint now, const supervisor::HeartbeatsSeen& event, Actions& actions);
  void on(TimePoint now, const supervisor::Stop& event, Actions& actions);
  void on(TimePoint now, const supervisor::Forward& event, Actions& actions);
  void on(TimePoint now, const supervisor::Deliver& event, Actions& actions);
  void on(TimePoint now, const supervisor::Insist& event, Actions& actions);
  void judge_end(TimePoint now, const Worker& ended, Actions& actions);
  void fail(TimePoint now, const Outcome& outcome, const std::string& what, Actions& actions);
  void begin_drain(TimePoint now, const std::string& reason, int signal, Actions& actions);
  void begin_killing(TimePoint now, bool at_once, Actions& actions);
  void give_up_the_rest();
  void record_tree();
  bool is_held_back(TimePoint now, const Recorded& each, const TreeProcess& seen) const;
  void signal_down(TimePoint now, Actions& actions);
  std::vector<TreeProcess> rest() const;
  void linger(TimePoint now, Actions& actions);
  void end_lingering(TimePoint now, Actions& actions);
  void release(Actions& actions);
  static void sweep(Worker& worker, Actions& actions);
  void sweep_node(TimePoint now, Actions& actions);
  void tell_still_ending(TimePoint now, Actions& actions);
  void go_on_if_gone(TimePoint now, Actions& actions);
  void finish(Actions& actions, bool unswept = false);
  void send(Worker& worker, int signal, Actions& actions) const;

  std::vector<Worker> workers_;
  EndPolicy policy_;
  PhaseOf<Phase> phase_{Phase::idle, steps};
  HeartbeatMonitor beats_;  // while running
  TimePoint ending_since_{};
  int drain_signal_ = 0;
  std::string drain_reason_;
  std::optional<Outcome> first_failure_;
  std::optional<TimePoint> deadline_;
  // --- what the workers have started; known once a stop has begun ---
  std::vector<TreeProcess> seen_;                // the last TreeSeen
  std::optional<std::vector<Recorded>> record_;  // set once the signal goes down the trees
  bool awaits_record_ = false;                   // the next TreeSeen becomes the record
  bool awaits_rest_ = false;     // every worker has exited; TreeSeen now shows only the rest
  bool rest_is_seen_ = false;    // a TreeSeen arrived since then
  bool rest_is_told_ = false;    // while lingering: reported
  bool rest_is_ending_ = false;  // while lingering: TERM was sent
  bool releases_ = false;        // while lingering: it keeps running
  std::optional<TimePoint> still_ending_due_;
};

static_assert(StateMachine<Supervisor>);

}  // namespace cpprun
