// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The workers of this node as processes (WorkerProcesses), and all their descendants while they are
// being stopped (EndingTree).

#include <sys/resource.h>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <tl/expected.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/workers/io/process_tree.h"
#include "launcher/workers/spawn.h"
#include "launcher/workers/supervisor.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "proto/result.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/logging.h"

namespace cpprun::io {

// The descriptors for a worker's stdout and stderr. -1: its StreamPlan alone decides.
struct WorkerStreams {
  int out = -1;
  int err = -1;
};

// The workers of this node as processes. Starts them, signals their groups, detects their exits by
// pidfd (by SIGCHLD if there is none), and sweeps what they leave behind. cpprun is a child
// subreaper, so everything a worker starts stays its descendant, even in another session, and can
// be found and killed.
class WorkerProcesses {
 public:
  // Called from the event loop, never from inside a call of this class.
  struct Callbacks {
    std::function<void(LocalRank, link::ExitStatus)> exited;
    std::function<void(LocalRank, int pid)> group_gone;
    std::function<void(std::vector<TreeProcess>)> tree_seen = {};  // see watch_tree()
    std::function<void(int pid)> spared_ended = {};                // a spared child has exited
    std::function<void(const std::string& text, LogLevel level)> note = {};  // about warm workers
  };

  // How workers are started and identified.
  struct Terms {
    std::optional<rlimit> open_files;  // the workers' limit; none: ours
    JobProcesses job_processes;
    std::optional<int> niceness;  // the workers' niceness; none: ours
    // Our helper processes, which no sweep may kill. They are notified when one is reaped here.
    HelperProcesses* side;
    Environment environment;  // cpprun's own, as it was at its start
    bool are_traceable;       // see WorkerLimits
    // --warm: workers are forked from a process that has imported these. Empty: they are executed.
    std::vector<std::string> warm_modules;
  };

  // Makes this process a child subreaper. `spared` are children that no sweep may kill (the
  // watchdog). If there were other children before, or if unrelated orphans are reparented to us
  // because we are the first process of a container, only the job's processes (JobProcesses) are
  // swept.
  WorkerProcesses(asio::io_context& context, Callbacks callbacks, std::vector<int> spared,
                  Terms terms = {});
  // Kills all remaining processes: none outlives its owner.
  ~WorkerProcesses();
  WorkerProcesses(const WorkerProcesses&) = delete;
  WorkerProcesses& operator=(const WorkerProcesses&) = delete;

  // The processes stay when another program is executed in this process: what it needs.
  struct Carried {
    struct Worker {
      LocalRank local_rank{};
      int pid = 0;
      bool has_exited = false;  // and `exited` was called; not swept yet
      friend bool operator==(const Worker&, const Worker&) = default;
    };
    std::vector<Worker> workers = {};
    std::vector<int> spared = {};
    bool unrelated_below = false;
    int warm_parent = 0;  // 0: there is none
    friend bool operator==(const Carried&, const Carried&) = default;
  };
  // A reason if a worker is being swept.
  Result<Carried> carried() const;
  // Continues with the workers of `carried`, which have these specs. Before any other call.
  void adopt(const Carried& carried, const std::vector<WorkerSpec>& specs);

  // Workers like these are about to be started.
  void begin_round(const std::vector<WorkerSpec>& specs);

  // Starts one worker and returns its pid once the program is executed. On failure returns the
  // stage that failed; then no process is left. `exited` follows exactly once.
  using Spawned = tl::expected<int, SpawnError>;
  Spawned spawn(const WorkerSpec& spec, const WorkerStreams& streams);
  // The same, but a warm worker if possible. Then `done` is called from the event loop; until then
  // the streams must stay open.
  void start(const WorkerSpec& spec, const WorkerStreams& streams,
             std::function<void(const Spawned&)> done);

  // To every process in that worker's group. No effect if the worker has exited.
  void signal_group(LocalRank local_rank, int signal);

  // To the worker's own process, and not to its children. False: it has no handler for that signal
  // and would die of it, so the signal was not sent.
  bool signal_worker(LocalRank local_rank, int signal);

  // To the worker's own process alone, which is continued if it is stopped.
  void signal_main(LocalRank local_rank, int signal);

  // To a process that a worker started, if it is still the same one and belongs to the job.
  // Continued as well.
  void signal_process(int pid, std::uint64_t started, int signal);

  // Calls `tree_seen` with all running processes that the workers started: soon, and again whenever
  // one of them has exited, until the node is swept or a worker is started.
  void watch_tree();

  // After `exited`: reaps the worker and calls `group_gone`. Its descendants are not swept.
  void release(LocalRank local_rank);

  // After `exited`: kills the rest of its group, reaps it, then calls `group_gone`.
  void sweep(LocalRank local_rank);

  // Kills every remaining descendant of workers that have exited, then calls `done`.
  void sweep_node(std::function<void()> done);

  // Exempts a child of ours and its descendants from every sweep.
  void spare(int pid);

  // Whether no worker and no process started by a worker is left.
  bool none_is_left() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// All processes started by a node's workers, while these are being stopped. Lists them on request,
// when one of them has exited, and twice a second. A pidfd reports an exit anywhere in the tree.
// Without pidfds, SIGCHLD reports those that were reparented to us, and so at least the last one.
// Idle otherwise.
class EndingTree {
 public:
  // `below` lists the pids of all processes started by workers. `seen` is called from the event
  // loop.
  EndingTree(asio::io_context& context, std::function<std::vector<int>()> below,
             std::function<void(std::vector<TreeProcess>)> seen);

  // Lists and reports now, and again after each change.
  void watch();
  // One of them may have exited.
  void look_soon();
  void forget();

 private:
  using Identity = std::pair<int, std::uint64_t>;  // pid and start time

  void look(bool is_asked);
  void beat();
  std::vector<TreeProcess> list() const;
  void await_exits();

  asio::io_context& context_;
  std::function<std::vector<int>()> below_;
  std::function<void(std::vector<TreeProcess>)> seen_;
  bool watches_ = false;
  bool look_is_due_ = false;
  std::vector<TreeProcess> last_;
  std::map<Identity, std::unique_ptr<asio::posix::stream_descriptor>> awaited_;
  asio::steady_timer timer_;
  asio::steady_timer beat_;
};

}  // namespace cpprun::io
