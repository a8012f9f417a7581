// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One attempt of one node's workers: run, drain, settle.
//
//   running    Every worker was asked to start. A worker that ends with 0 is done and the others
//              go on. The first bad end, the first that cannot be started or has stopped beating
//              (beat_watch.h), or Stop begins:
//   draining   Every worker was sent a signal (TERM unless Stop said another), and the node has one
//              grace period from that moment. The signal goes down each process tree generation by
//              generation: first to the main process; to a process of the tree, as it was when the
//              end began, when its parent has exited or only waits for it (wrapper_pause), and when
//              the processes whose output it reads have exited. A worker that starts only now is
//              sent the signal at once. When every process has exited: sweeping. When the grace is
//              over, or on Insist, begins:
//   killing    Everybody still there was sent KILL. What does not die of it within
//              bounds::kill_patience sits in the kernel; it is given up, and said so.
//   lingering  Every worker ended with 0 and processes that they started still run. They have the
//              grace, then TERM, then KILL (or other, see Stragglers).
//   sweeping   All workers and their groups are gone; now whatever else descends from them.
//   settled    Nobody is left. Told exactly once; every later event is ignored.
//
// The group of a worker that failed by itself is swept at once: what it left behind must not hold a
// device. The groups of the others are swept when their processes have exited or the grace is over.
// A worker counts as gone only after that.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/plan.h"
#include "launcher/workers/beat_watch.h"
#include "launcher/workers/spawn.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"
#include "proto/state_machine.h"

namespace cpprun {

// How one worker ended.
struct Outcome {
  LocalRank local_rank;
  Rank rank;
  int pid = 0;                            // 0: it never started
  std::optional<SpawnError> spawn_error;  // why it never started
  link::ExitStatus status;                // 127 or 126 where it never started
  int our_signal = 0;     // the last signal we had sent it before it ended; 0: it ended by itself
  bool given_up = false;  // KILL did not end it in time: it may still be there
  WallTime time{};        // when its end was noticed
  // It had beaten and stopped: for so long, when that was noticed and it was ended.
  std::optional<Duration> hung_for = {};
  friend bool operator==(const Outcome&, const Outcome&) = default;

  bool good() const { return !given_up && status == link::ExitStatus{}; }
  // It ended of the very signal that we sent it.
  bool obeyed() const {
    return our_signal != 0 && status == link::ExitStatus{.signalled = true, .value = our_signal};
  }
};

// One worker as whoever looks may see it.
struct WorkerView {
  LocalRank local_rank;
  int pid = 0;
  WorkerState state = WorkerState::starting;
  TimePoint since{};
  friend bool operator==(const WorkerView&, const WorkerView&) = default;
};

// After the signal that ends workers: those that still run are named then.
inline constexpr auto still_ending_after = std::chrono::seconds(1);
// A wrapper that outlives the signal has so long, and at most a quarter of the grace, before the
// process that it waits for gets the signal as well.
inline constexpr Duration wrapper_pause = std::chrono::seconds(2);
// What outlived a good end and its grace was sent TERM: KILL comes after that.
inline constexpr auto stragglers_end_within = std::chrono::seconds(3);

// How workers are ended.
struct EndPolicy {
  Duration grace{};  // between the signal and KILL, for all workers of the node
  SignalScope scope = SignalScope::process;
  Stragglers stragglers = Stragglers::wait;
};

// A process that a worker started, directly or not, and that has not exited.
struct TreeProcess {
  int pid = 0;
  std::uint64_t started = 0;  // with the pid: its identity
  int parent = 0;
  int group = 0;
  int session = 0;
  std::string command = {};
  std::uint64_t in_pipe = 0;  // numbers of the pipes that stdin, stdout and stderr are; 0: no pipe
  std::uint64_t out_pipe = 0;
  std::uint64_t err_pipe = 0;
  bool is_waited_for = false;  // its parent is blocked until it, or any child, has exited
  friend bool operator==(const TreeProcess&, const TreeProcess&) = default;
};

namespace supervisor {

// --- events: what the driver tells ---------------------------------------------------------------

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

// The worker's process ended; it is still to be reaped, so that its group's number stays taken.
struct Exited {
  LocalRank local_rank;
  link::ExitStatus status;
  WallTime time{};
  friend bool operator==(const Exited&, const Exited&) = default;
};

// The answer to Sweep: nobody is left in that worker's group.
struct GroupGone {
  LocalRank local_rank;
  friend bool operator==(const GroupGone&, const GroupGone&) = default;
};

// The answer to SweepNode: nobody who descends from these workers is left.
struct NodeSwept {
  friend bool operator==(const NodeSwept&, const NodeSwept&) = default;
};

// The answer to WatchTree: the processes that run now. An empty list: none.
struct TreeSeen {
  std::vector<TreeProcess> processes = {};
  friend bool operator==(const TreeSeen&, const TreeSeen&) = default;
};

// The answer to LookAtBeats.
struct BeatsSeen {
  std::vector<BeatReading> readings;
  WallTime time{};
  friend bool operator==(const BeatsSeen&, const BeatsSeen&) = default;
};

// End everybody. `reason` completes "ending the workers: …".
struct Stop {
  std::string reason;
  int signal = 15;
  friend bool operator==(const Stop&, const Stop&) = default;
};

// Pass this signal on to everybody, as it is: it is not meant to end anybody.
struct Forward {
  int signal = 0;
  friend bool operator==(const Forward&, const Forward&) = default;
};

// This signal to the workers themselves, and not to what they have started; it is not meant to end
// anybody. Nothing happens where the end has begun.
struct Deliver {
  int signal = 0;
  friend bool operator==(const Deliver&, const Deliver&) = default;
};

// A second Ctrl-C: no more patience. Begins the end by itself where nothing had yet.
struct Insist {
  std::string reason;
  friend bool operator==(const Insist&, const Insist&) = default;
};

// --- actions: what the driver does, in order -----------------------------------------------------

// Answer with Started or SpawnFailed.
struct Spawn {
  WorkerSpec spec;
  friend bool operator==(const Spawn&, const Spawn&) = default;
};

struct SignalGroup {
  LocalRank local_rank;
  int signal = 0;
  friend bool operator==(const SignalGroup&, const SignalGroup&) = default;
};

// To the worker's own process; not where it would end of that because it has no handler for it.
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

// To one process of a worker's tree, if it is still that one; it is continued if it is stopped.
struct SignalProcess {
  int pid = 0;
  std::uint64_t started = 0;
  int signal = 0;
  friend bool operator==(const SignalProcess&, const SignalProcess&) = default;
};

// Answer with TreeSeen now, and again whenever a process has exited, until SweepNode or a Spawn.
struct WatchTree {
  friend bool operator==(const WatchTree&, const WatchTree&) = default;
};

// Reap a worker that ended, and leave what it started running; answer with GroupGone.
struct Release {
  LocalRank local_rank;
  friend bool operator==(const Release&, const Release&) = default;
};

// KILL whatever is left in the group of a worker that ended, reap it; answer with GroupGone.
struct Sweep {
  LocalRank local_rank;
  friend bool operator==(const Sweep&, const Sweep&) = default;
};

// KILL every process that still descends from the workers; answer with NodeSwept.
struct SweepNode {
  friend bool operator==(const SweepNode&, const SweepNode&) = default;
};

// Read the workers' heartbeat files; answer with BeatsSeen.
struct LookAtBeats {
  friend bool operator==(const LookAtBeats&, const LookAtBeats&) = default;
};

// This node's first failure, told at once while the others still have to be ended.
struct Failed {
  Outcome outcome;
  friend bool operator==(const Failed&, const Failed&) = default;
};

// The drain has begun, for the console_messages. `reason` completes "ending the workers: …".
struct Draining {
  std::string reason;
  int signal = 0;
  friend bool operator==(const Draining&, const Draining&) = default;
};

// For the console messages: a second after the signal these still run.
struct StillEnding {
  std::vector<Rank> ranks = {};  // workers
  int others = 0;                // where no worker runs: processes that workers started
  Duration left{};               // of the grace
  friend bool operator==(const StillEnding&, const StillEnding&) = default;
};

// For the console messages: processes that workers started have outlived them.
struct Leftover {
  enum class Fate {
    awaited,   // after a good end: they have the grace
    released,  // after a good end: they keep running
    ended,     // after a good end: the grace is over, they are sent TERM
    killed,    // after any other end: the grace is over
  };
  Fate fate = Fate::awaited;
  std::vector<TreeProcess> processes = {};
  friend bool operator==(const Leftover&, const Leftover&) = default;
};

// A worker was sent KILL, for the console messages: it has outlived its grace, or there was none.
struct Killing {
  LocalRank local_rank;
  bool at_once = false;
  friend bool operator==(const Killing&, const Killing&) = default;
};

// Nobody is left. In order of local rank, one for every spec. No reason: everybody ended with 0.
struct Settled {
  std::vector<Outcome> outcomes;
  std::optional<Outcome> first_failure;
  std::string drain_reason;  // empty where nothing had to be ended
  bool unswept = false;      // something they have started could not be killed
  friend bool operator==(const Settled&, const Settled&) = default;
};

using Event = std::variant<Started, SpawnFailed, Exited, GroupGone, NodeSwept, TreeSeen, BeatsSeen,
                           Stop, Forward, Deliver, Insist>;
using Action = std::variant<Spawn, SignalGroup, SignalWorker, SignalMain, SignalProcess, WatchTree,
                            Release, Sweep, SweepNode, LookAtBeats, Failed, Draining, StillEnding,
                            Leftover, Killing, Settled>;

// The part of these that is about processes: what becomes of them, and what is done to them. The
// others are between a supervisor and its agent.
using ProcessEvent =
    std::variant<Started, SpawnFailed, Exited, GroupGone, NodeSwept, TreeSeen, BeatsSeen>;
using ProcessAction = std::variant<Spawn, SignalGroup, SignalWorker, SignalMain, SignalProcess,
                                   WatchTree, Release, Sweep, SweepNode, LookAtBeats>;

}  // namespace supervisor

class Supervisor {
 public:
  using Event = supervisor::Event;
  using Action = supervisor::Action;
  using Actions = std::vector<Action>;

  // Without a timeout nobody's beats are watched.
  Supervisor(std::vector<WorkerSpec> specs, EndPolicy policy,
             std::optional<BeatTimeout> beat_timeout = std::nullopt);

  // Asks for every worker; called once, before any event.
  Actions start(TimePoint now);
  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  // The invariant that is broken, if one is.
  std::optional<std::string> check() const;

  bool settled() const { return phase_ == Phase::settled; }
  // In order of local rank.
  std::vector<WorkerView> workers() const;

 private:
  enum class Phase { idle, running, draining, lingering, killing, sweeping, settled };
  static constexpr PhaseStep<Phase> steps[] = {
      {Phase::idle, Phase::running},       {Phase::running, Phase::draining},
      {Phase::running, Phase::lingering},  // every worker ended with 0
      {Phase::running, Phase::sweeping},   // the same, and nothing is waited for
      {Phase::lingering, Phase::draining}, {Phase::lingering, Phase::killing},
      {Phase::lingering, Phase::sweeping}, {Phase::lingering, Phase::settled},
      {Phase::draining, Phase::killing},   {Phase::draining, Phase::sweeping},
      {Phase::killing, Phase::sweeping},   {Phase::sweeping, Phase::settled}};
  enum class Life { asked, alive, ended, gone };

  struct Worker {
    WorkerSpec spec;
    Life life = Life::asked;
    Outcome outcome;
    TimePoint since{};  // when it came into that life
    bool is_swept = false;
  };

  // A process of the trees as they were when the end began.
  struct Recorded {
    TreeProcess process;
    int parent = 0;  // whose exit it waits for: a process or a worker; 0: all workers
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
  void on(TimePoint now, const supervisor::BeatsSeen& event, Actions& actions);
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
  void settle(Actions& actions, bool unswept = false);
  void send(Worker& worker, int signal, Actions& actions) const;

  std::vector<Worker> workers_;
  EndPolicy policy_;
  PhaseOf<Phase> phase_{Phase::idle, steps};
  BeatWatch beats_;  // while it runs
  TimePoint ending_since_{};
  int drain_signal_ = 0;
  std::string drain_reason_;
  std::optional<Outcome> first_failure_;
  std::optional<TimePoint> deadline_;
  // --- what the workers have started; known from the begin of an end on ---
  std::vector<TreeProcess> seen_;                // last
  std::optional<std::vector<Recorded>> record_;  // once the signal goes down the trees
  bool awaits_record_ = false;                   // the next TreeSeen is the record
  bool awaits_rest_ = false;     // every worker has ended: what is seen from now on is the rest
  bool rest_is_seen_ = false;    // since then
  bool rest_is_told_ = false;    // while lingering
  bool rest_is_ending_ = false;  // the same: it was sent TERM
  bool releases_ = false;        // the same: it keeps running
  std::optional<TimePoint> still_ending_due_;
};

static_assert(StateMachine<Supervisor>);

}  // namespace cpprun
