// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Performs the agent's actions on this node's workers (WorkerRuntime), and inspects one of them
// (probe_world).

#include <asio/io_context.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/agent/io/preparation.h"
#include "launcher/failure/io/evidence_collector.h"
#include "launcher/io/disk_helper.h"
#include "launcher/output/io/log_dir.h"
#include "launcher/output/io/output_pump.h"
#include "launcher/report/events.h"
#include "launcher/workers/io/gpu_sampler.h"
#include "launcher/workers/io/heartbeat_files.h"
#include "launcher/workers/io/process.h"
#include "launcher/workers/io/round_socket.h"
#include "launcher/workers/io/watchdog.h"
#include "proto/rank.h"
#include "proto/result.h"

namespace cpprun::io {

// Inspects a worker and its descendants once: which of them listen on a port, which were started by
// Python's multiprocessing, and how much CPU time they have used.
WorldProbe probe_world(int pid);

// The processes of this node's workers, with their logs, heartbeat files and evidence. What happens
// to them becomes an event of the agent. Makes no decisions.
class WorkerRuntime {
 public:
  struct Callbacks {
    std::function<void(Agent::Event)> post;
    std::function<void(const events::Event&)> publish;
    // A child of cpprun that is not a worker has exited.
    std::function<void(int pid)> spared_ended;
  };

  // All of these must outlive this object.
  WorkerRuntime(asio::io_context& context, RunInputs& inputs, Watchdog& watchdog, OutputPump& pump,
                Callbacks callbacks);

  // Creates the directories for logs and error files. `spared` are children of cpprun that are not
  // workers.
  Result<void> open(std::vector<int> spared);
  // All of this stays when another program is executed in this process: what it needs.
  struct Carried {
    WorkerProcesses::Carried processes = {};
    LogDir::Carried logs = {};
    OutputCarried output = {};
    std::map<LocalRank, int> heartbeat_files = {};
    bool has_probes = false;
    friend bool operator==(const Carried&, const Carried&) = default;
  };
  // A reason if something is under way that cannot be continued.
  Result<Carried> carried() const;
  // Instead of open(): continues the attempt of the other program.
  void adopt(Carried carried, std::vector<WorkerSpec> specs);
  void spare(int pid) { processes_->spare(pid); }
  // Empty: open() has not been called, or failed, or there is no such directory.
  std::string run_directory() const { return logs_ ? logs_->run_directory() : std::string(); }
  std::string error_directory() const { return logs_ ? logs_->error_directory() : std::string(); }
  // Removes the private directory, unless another process does.
  void end_logs(bool is_handed_over);
  bool none_is_left() const { return !processes_ || processes_->none_is_left(); }

  // What the agent's actions request.
  void prepare(const agent::Prepare& action);
  void work(const agent::Work& action);
  void examine(const agent::Examine& action);
  // `store_asked`: a worker of this round has contacted the store.
  void probe_world(bool store_asked);
  void sample_workers(const agent::SampleWorkers& action);
  void read_progress();
  void read_last_lines(const agent::ReadLastLines& action);
  void observe_workers(const agent::ObserveWorkers& action);
  void look_at_beats();
  // Before a signal is sent, while it is still visible what the worker does. Returns that.
  std::string look_before_kill(LocalRank local_rank);
  const WorkerSpec& spec(LocalRank local_rank) const {
    return specs_[static_cast<std::size_t>(local_rank.value)];
  }

 private:
  void open_processes(std::vector<int> spared);
  WorkerProcesses::Callbacks callbacks_of_processes();
  void tell(supervisor::ProcessEvent event) {
    callbacks_.post(agent::FromWorker{std::move(event)});
  }
  void spawn(WorkerSpec spec);
  void not_started(LocalRank rank, const SpawnError& error);
  void deliver(const supervisor::SignalWorker& action);
  void open_probes();
  void read_files(std::vector<LocalRank> ranks, std::function<void()> then);
  std::vector<std::string> last_lines(LocalRank local_rank) const;
  void capture(const agent::ObserveWorkers& action);
  void open_rounds();
  std::string write_stacks(const agent::ObserveWorkers& action,
                           const std::vector<hang::Observation>& observations);
  std::optional<link::GpuUse> gpu_of(const WorkerView& view, TimePoint now) const;
  int& pid_of(LocalRank local_rank) { return pids_[static_cast<std::size_t>(local_rank.value)]; }

  asio::io_context& context_;
  RunInputs& inputs_;
  Watchdog& watchdog_;
  OutputPump& pump_;
  Callbacks callbacks_;
  std::optional<WorkerProcesses> processes_;
  std::optional<LogDir> logs_;
  std::optional<EvidenceCollector> collector_;
  std::vector<WorkerSpec> specs_;   // of the current attempt
  std::vector<int> pids_;           // by local rank; 0 before the start
  HeartbeatFiles heartbeat_files_;  // of these workers
  RoundSocket rounds_;
  RoundNumber round_{};                      // of these workers
  std::map<LocalRank, SpawnError> no_room_;  // their log directories could not be created
  GpuSampler gpus_;
  std::string probe_directory_;  // empty: the workers get no probe
  // Observations in a row in which a worker's server has left a request unanswered. Each request
  // may still occupy a thread of the server.
  std::map<LocalRank, int> unanswered_;
  std::string py_spy_;  // its path; empty: it is not installed
  // Of workers that write stderr to a file, when read_files() has last read them.
  std::map<LocalRank, std::vector<std::string>> file_lines_;
  AsyncTask files_;
  AsyncTask observations_;  // for the ProgressMonitor
  AsyncTask captures_;
  AsyncTask stacks_files_;
};

}  // namespace cpprun::io
