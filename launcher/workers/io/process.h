// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The workers of this node as processes (WorkerProcesses), and all that they started while it is
// being ended (EndingTree).

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
#include <utility>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/workers/io/process_tree.h"
#include "launcher/workers/spawn.h"
#include "launcher/workers/supervisor.h"
#include "proto/ids.h"
#include "proto/link/message.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun::io {

// The descriptors a worker's stdout and stderr become; -1: its StreamPlan alone decides.
struct WorkerStreams {
  int out = -1;
  int err = -1;
};

// The workers of this node as processes: starts them, signals their groups, learns of their ends by
// pidfd (or SIGCHLD where there is none), and sweeps what they leave behind. cpprun is a child
// subreaper, so whatever a worker starts stays its descendant even in another session, and can be
// found and ended.
class WorkerProcesses {
 public:
  // Called from the event loop, never from inside a call of this class.
  struct Callbacks {
    std::function<void(LocalRank, link::ExitStatus)> exited;
    std::function<void(LocalRank)> group_gone;
    std::function<void(std::vector<TreeProcess>)> tree_seen = {};  // see watch_tree
    std::function<void(int pid)> spared_ended = {};  // one of those that no sweep may end
  };

  // What its workers are, and are known by.
  struct Terms {
    std::optional<rlimit> open_files;  // their limit of them; ours where none is given
    Kin kin;
    std::optional<int> niceness;  // theirs; ours where none is given
    // Ours, which no sweep may end either; told of those that are reaped here.
    SideProcesses* side;
    Environment environment;  // cpprun's own, as it was when it started
  };

  // Makes this process a child subreaper. `spared` are children that no sweep may end (the
  // watchdog). If there were other children before our time, or if orphans of strangers come to us
  // because we are the first process of a container, only kin is ever swept.
  WorkerProcesses(asio::io_context& context, Callbacks callbacks, std::vector<int> spared,
                  Terms terms = {});
  // Kills whatever is still there: no process outlives its owner.
  ~WorkerProcesses();
  WorkerProcesses(const WorkerProcesses&) = delete;
  WorkerProcesses& operator=(const WorkerProcesses&) = delete;

  // Starts one worker and gives its pid. Comes back when the program is executed, or with the
  // stage at which it was not; then no process is left. `exited` follows exactly once.
  tl::expected<int, SpawnError> spawn(const WorkerSpec& spec, const WorkerStreams& streams);

  // To every process in that worker's group; nothing happens where it already ended.
  void signal_group(LocalRank local_rank, int signal);

  // To its own process, and not to what it has started. False: it has no handler for that signal
  // and would end of it, so it was not sent.
  bool signal_worker(LocalRank local_rank, int signal);

  // To its own process alone, which is continued if it is stopped.
  void signal_main(LocalRank local_rank, int signal);

  // To a process that a worker has started, if it is still that one and still kin; it is continued
  // as well.
  void signal_process(int pid, std::uint64_t started, int signal);

  // Calls `tree_seen` with all that the workers have started and that still runs: soon, and again
  // whenever one of them has exited, until the node is swept or a worker is started.
  void watch_tree();

  // After `exited`: reaps it and calls `group_gone`. What it has started is swept no more.
  void release(LocalRank local_rank);

  // After `exited`: KILL to what is left of its group, reap it, then call `group_gone`.
  void sweep(LocalRank local_rank);

  // KILL to every process that still descends from a worker; then call `done`.
  void sweep_node(std::function<void()> done);

  // A child of ours that no sweep may end, nor what is below it.
  void spare(int pid);

  // No worker and nothing that a worker has started is there any more.
  bool nobody_is_left() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// What the workers of a node have started, while they are being ended: looks at it when asked, when
// one of these processes has exited, and twice a second. A pidfd tells of an exit anywhere in the
// tree; without pidfds SIGCHLD tells of those that came to us, and so of the last one. Idle
// otherwise.
class EndingTree {
 public:
  // `below` lists the pids of all that workers have started. `seen` is called from the event loop.
  EndingTree(asio::io_context& context, std::function<std::vector<int>()> below,
             std::function<void(std::vector<TreeProcess>)> seen);

  // Looks now and reports, and reports again after each change.
  void watch();
  // One of them may have exited.
  void look_soon();
  void forget();

 private:
  using Identity = std::pair<int, std::uint64_t>;  // pid and start

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
