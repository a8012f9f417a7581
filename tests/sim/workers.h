// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The workers' part of the kernel of one simulated machine: it starts the workers of this node,
// delivers signals, reports exits, and sweeps leftovers.

#include <functional>
#include <memory>
#include <vector>

#include "launcher/workers/supervisor.h"
#include "tests/sim/machine_clock.h"
#include "tests/sim/random.h"
#include "tests/sim/store_user.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

class Workers {
 public:
  struct Hooks {
    std::function<void(supervisor::ProcessEvent)> tell;  // to the cpprun that owns them
    // A worker failed without a request: its neighbours may fail too.
    std::function<void(const WorkerEnd&)> died;
    // Connects to its store, and whether the store could answer: see StoreUser.
    std::function<std::shared_ptr<Loopback>()> connect = {};
    std::function<bool(RoundId)> is_calm = {};
  };
  Workers(Universe& universe, const MachineClock& clock, int node, Hooks hooks);

  // The following workers belong to that round.
  void begin_round(RoundId round);
  void perform(const supervisor::ProcessAction& action);

  // The owner was killed: the kernel and its watchdog soon kill all workers.
  void orphaned();
  // The machine lost power.
  void vanish();
  // Whether there is a leader, a member of its group, or a runaway.
  bool any_alive() const;
  // The same without workers that have left their round and wait for the next one, and without
  // what they have started.
  bool any_in_round() const;
  // The same as any_alive() without those that are stuck in the kernel.
  bool any_alive_but_stuck() const;
  // Whether a leader that is not stuck uses its rank.
  bool computing() const;

  // --- faults ---
  void fail(int local_rank, link::ExitStatus status, bool injected);
  // The worker of that rank and round, if it is alive.
  void fail_of_neighbour(Rank rank, RoundId round);
  void hang(int local_rank);
  void stick(int local_rank, TimePoint until);
  // It starts a process in its group or in its own session, which SIGTERM does not end.
  void leave_members(int local_rank, bool runaway);
  void crash_next(int local_rank, int times);
  void refuse_next(int local_rank);

 private:
  struct Process {
    Rank rank;
    RoundId round;
    std::uint64_t life = 0;  // events of an older life are void
    bool alive = false;
    bool members = false;  // processes of its group, after or beside the leader
    bool runaway = false;  // in its own session: only the sweep of the node finds it
    bool ignores_term = false;
    bool asked_to_end = false;
    TimePoint stuck_until{};
    int crashes_left = 0;
    bool refuse = false;
    bool changes_rounds = false;  // it can, and has told so
    bool waits = false;           // it has left its round, and does no harm until it has a place
    std::shared_ptr<StoreUser> user = {};  // of its store, if it uses one
  };

  bool has(int local_rank) const;
  Process& at(int local_rank);
  void spawn(const WorkerSpec& spec);
  void plan_life(int local_rank);
  void consider_changing_rounds(int local_rank);
  void leave_round(const supervisor::LeaveRound& action);
  void take_place(const WorkerSpec& spec);
  void use_store(int local_rank);
  void signal(int local_rank, int number);
  void end_later(int local_rank, Duration delay, link::ExitStatus status, CauseOfDeath cause);
  void end(int local_rank, link::ExitStatus status, CauseOfDeath cause);
  void sweep(int local_rank);
  void kill_members(int local_rank);
  void see_tree();
  int pid_of(int local_rank) const;
  static int rank_of_started(int pid);
  void sweep_node();
  Random random_for(int local_rank, int purpose) const;

  Universe& universe_;
  const MachineClock& clock_;
  int node_;
  Hooks hooks_;
  RoundId round_{};
  int attempts_ = 0;
  bool watches_ = false;
  std::vector<Process> processes_;
};

}  // namespace cpprun::sim
