// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One attempt of one node's workers: run, drain, finish.
//
//   running    Every worker was asked to start. A worker that exits with 0 is done and the others
//              continue. The first failed exit, failed start or missed heartbeat
//              (heartbeat_monitor.h), or Stop, leads to:
//   leaving    With EndPolicy::keeps_workers, instead of draining: workers that can change rounds
//              leave this one, and the others were sent TERM. What has not left or exited within
//              the grace period is killed. If no worker is alive then: sweeping. Otherwise:
//   waiting    The remaining workers wait for their places in the next round, which resume() gives
//              them; it starts the missing ones. Stop or Insist ends them.
//   draining   Every worker was sent a signal (TERM, or the one in Stop), and the node has one
//              grace period from that moment. The signal goes down each process tree level by
//              level. The main process gets it first. A process that was in the tree when draining
//              began gets it once its parent has exited or only waits for it (wrapper_pause), and
//              once the processes whose output it reads have exited. A worker that starts only now
//              gets the signal at once. When every process has exited: sweeping. When the grace
//              period is over, workers may show their stacks first (EndPolicy). Then, or on Insist:
//   killing    All remaining processes were sent KILL. A worker that is not gone within
//              bounds::kill_timeout is stuck in the kernel; it is given up and reported.
//   lingering  Every worker exited with 0, and processes that they started still run. Those have
//              the grace period, then get TERM, then KILL (or as Stragglers says).
//   sweeping   All workers and their groups are gone; now kill their other descendants.
//   finished   No process is left. Reported exactly once; every later event is ignored.
//
// With RestartScope::worker, a failure in `running` is reported as well, and the other workers run
// on. The failed worker waits for Restart, which starts it again, or for Stop. If it hangs, it is
// ended first, as in a drain of its own: the signal, down its tree, the grace period, KILL.
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
  // Set if the whole job hung: why. Then `hung_for` is how long no rank has made progress.
  std::string verdict = {};
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
// Between DumpStack and KILL. Writing the stack takes milliseconds.
inline constexpr auto stack_dump_pause = std::chrono::milliseconds(500);

// How workers are stopped.
struct EndPolicy {
  Duration grace{};  // between the signal and KILL, for all workers of the node
  SignalScope scope = SignalScope::process;
  Stragglers stragglers = Stragglers::wait;
  bool dumps_stacks = false;  // of workers that do not exit in time, before KILL
  RestartScope restart_scope = RestartScope::job;
  // A failure does not stop workers that can change rounds (Rejoins).
  bool keeps_workers = false;
};

EndPolicy end_policy_of(const Config& config);

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

// The job hangs, and that worker is to blame (hang::Verdict).
struct Hung {
  LocalRank local_rank;
  Duration quiet{};
  std::string verdict;
  WallTime time{};
  friend bool operator==(const Hung&, const Hung&) = default;
};

// Start the worker of this spec again after `pause`. It has failed (RestartScope::worker); the
// start waits until none of its processes is left.
struct Restart {
  WorkerSpec spec;
  Duration pause{};
  friend bool operator==(const Restart&, const Restart&) = default;
};

// This node may have lost its seat: start no worker until that is known. The workers are stopped
// meanwhile.
struct Hold {
  bool holds = true;
  friend bool operator==(const Hold&, const Hold&) = default;
};

// The worker can change rounds. It has left that round and waits for its place in the next one; 0:
// it has had none yet.
struct Rejoins {
  LocalRank local_rank;
  RoundNumber round{};
  friend bool operator==(const Rejoins&, const Rejoins&) = default;
};

// The round is broken: keep the workers that can change rounds, and stop the others. `reason`
// completes "stopping the workers: …".
struct Break {
  std::string reason;
  friend bool operator==(const Break&, const Break&) = default;
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

// The round is broken: the worker is to leave it. The reply is Rejoins.
struct LeaveRound {
  LocalRank local_rank;
  RoundNumber round{};
  friend bool operator==(const LeaveRound&, const LeaveRound&) = default;
};

// The place of a worker in the next round, which it has been waiting for.
struct TakePlace {
  WorkerSpec spec;
  friend bool operator==(const TakePlace&, const TakePlace&) = default;
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

// The worker's main process writes its Python stack to stderr, if it can.
struct DumpStack {
  LocalRank local_rank;
  friend bool operator==(const DumpStack&, const DumpStack&) = default;
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

// Send KILL to every remaining descendant of workers that have exited. The reply is NodeSwept.
struct SweepNode {
  friend bool operator==(const SweepNode&, const SweepNode&) = default;
};

// Read the workers' heartbeat files. The reply is HeartbeatsSeen.
struct ReadHeartbeats {
  friend bool operator==(const ReadHeartbeats&, const ReadHeartbeats&) = default;
};

// This node's first failure, reported at once while the other workers still have to be stopped.
// With RestartScope::worker, every failure while they run.
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

// For the console: the round is broken, and these workers keep running.
struct Leaving {
  std::string reason;
  std::vector<Rank> ranks = {};
  friend bool operator==(const Leaving&, const Leaving&) = default;
};

// All workers have left the round or exited. The outcomes of those that exited.
struct Waiting {
  std::vector<Outcome> outcomes;
  std::optional<Outcome> first_failure;
  friend bool operator==(const Waiting&, const Waiting&) = default;
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

// No process is left. One outcome for every spec, in order of local rank, but not for workers that
// were in Waiting. No drain_reason: all workers exited with 0.
struct Finished {
  std::vector<Outcome> outcomes;
  std::optional<Outcome> first_failure;
  std::string drain_reason;  // empty if nothing had to be stopped
  bool unswept = false;      // a process started by workers could not be killed
  friend bool operator==(const Finished&, const Finished&) = default;
};

using Event =
    std::variant<Started, SpawnFailed, Exited, GroupGone, NodeSwept, TreeSeen, HeartbeatsSeen,
                 Rejoins, Hung, Restart, Hold, Break, Stop, Forward, Deliver, Insist>;
using Action =
    std::variant<Spawn, LeaveRound, TakePlace, SignalGroup, SignalWorker, DumpStack, SignalMain,
                 SignalProcess, WatchTree, Release, Sweep, SweepNode, ReadHeartbeats, Failed,
                 Draining, Leaving, Waiting, StillEnding, Leftover, Killing, Finished>;

// The events and actions about processes. The others are exchanged between a supervisor and its
// agent.
using ProcessEvent = std::variant<Started, SpawnFailed, Exited, GroupGone, NodeSwept, TreeSeen,
                                  HeartbeatsSeen, Rejoins>;
using ProcessAction =
    std::variant<Spawn, LeaveRound, TakePlace, SignalGroup, SignalWorker, DumpStack, SignalMain,
                 SignalProcess, WatchTree, Release, Sweep, SweepNode, ReadHeartbeats>;

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
  Actions start(TimePoint now, RoundNumber round = {});
  // The remaining workers wait for the next round.
  bool waits() const { return phase_ == Phase::waiting; }
  // For waits(): the next round. The remaining workers take their places in it, and the others are
  // started. There is one spec for each worker, in order of local rank.
  Actions resume(TimePoint now, RoundNumber round, std::vector<WorkerSpec> specs);
  // For waits(): the specs as resume() takes them. A worker that remains keeps its files.
  std::vector<WorkerSpec> with_files_of_remaining(std::vector<WorkerSpec> specs) const;
  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  // Returns the broken invariant, if any.
  std::optional<std::string> check() const;

  bool finished() const { return phase_ == Phase::finished; }
  // All workers were started and run, or have exited with 0.
  bool is_steady() const { return phase_ == Phase::running && all(Life::alive); }
  // In order of local rank.
  std::vector<WorkerView> workers() const;
  const HeartbeatMonitor::StepTimes& step_times() const { return beats_.step_times(); }
  void learn(const HeartbeatMonitor::StepTimes& times) { beats_.learn(times); }

 private:
  enum class Phase {
    idle,
    running,
    leaving,
    waiting,
    draining,
    lingering,
    killing,
    sweeping,
    finished
  };
  static constexpr PhaseStep<Phase> steps[] = {
      {Phase::running, Phase::leaving},    {Phase::leaving, Phase::waiting},
      {Phase::leaving, Phase::sweeping},  // no worker remains
      {Phase::waiting, Phase::running},   // the next round
      {Phase::leaving, Phase::draining},   {Phase::waiting, Phase::draining},
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
    // --- with RestartScope::worker, while the others run
    bool has_failed = false;              // it was reported; Restart or the drain follows
    std::optional<WorkerSpec> next = {};  // of the restart that was requested
    TimePoint next_at{};
    // If it is not gone by then: KILL follows, or if it was sent KILL, the drain.
    std::optional<TimePoint> gone_by = {};
    bool is_ended_alone = false;  // it hung: it and its processes have the grace period
    bool awaits_record = false;   // the next TreeSeen shows what it has started
    bool has_dumped_stack = false;
    bool can_change_rounds = false;
    bool has_left = false;      // the round that was broken
    bool was_reported = false;  // in Waiting
    // --- while `asked`, in a round that others have resumed
    bool is_pending = false;   // its start was not requested yet
    bool awaits_gone = false;  // because the group of its predecessor is not gone yet

    bool remains() const { return life == Life::alive && has_left; }
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
  void on(TimePoint now, const supervisor::Hung& event, Actions& actions);
  void on(TimePoint now, const supervisor::Restart& event, Actions& actions);
  void on(TimePoint now, const supervisor::Hold& event, Actions& actions);
  void on(TimePoint now, const supervisor::Rejoins& event, Actions& actions);
  void on(TimePoint now, const supervisor::Break& event, Actions& actions);
  void on(TimePoint now, const supervisor::Stop& event, Actions& actions);
  void on(TimePoint now, const supervisor::Forward& event, Actions& actions);
  void on(TimePoint now, const supervisor::Deliver& event, Actions& actions);
  void on(TimePoint now, const supervisor::Insist& event, Actions& actions);
  void judge_end(TimePoint now, Worker& ended, Actions& actions);
  void fail(TimePoint now, Worker& worker, const Outcome& outcome, const std::string& what,
            Actions& actions);
  void end_alone(TimePoint now, Worker& hung, Actions& actions);
  void see_tree_of_hung(TimePoint now, Actions& actions);
  bool insist_on_end(TimePoint now, Worker& each, Actions& actions);
  void advance_restarts(TimePoint now, Actions& actions);
  void forget_restarts();
  void begin_drain(TimePoint now, const std::string& reason, int signal, Actions& actions);
  bool begin_leaving(TimePoint now, const std::string& reason, Actions& actions);
  void forget_pending_starts();
  void end_leaving(TimePoint now, Actions& actions);
  void wait_if_all_left(TimePoint now, Actions& actions);
  void begin_waiting(Actions& actions);
  void sweep_before_start(Actions& actions);
  void end_wait_for_starts(TimePoint now, Actions& actions);
  void dump_stacks(TimePoint now, Actions& actions);
  void begin_killing(TimePoint now, bool at_once, Actions& actions);
  void give_up_the_rest();
  void record_tree();
  void record_tree_of(const Worker& worker);
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
  RoundNumber round_{};
  HeartbeatMonitor beats_;  // while running
  TimePoint ending_since_{};
  int drain_signal_ = 0;
  std::string drain_reason_;
  std::optional<Outcome> first_failure_;
  std::optional<TimePoint> deadline_;
  bool holds_ = false;        // see Hold
  bool kills_late_ = false;   // while leaving: workers that had not left were sent KILL
  bool is_sweeping_ = false;  // while leaving: the last step
  bool needs_sweep_ = false;  // a worker has exited since; done in the next round
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
  bool has_dumped_stacks_ = false;
};

static_assert(StateMachine<Supervisor>);

}  // namespace cpprun
