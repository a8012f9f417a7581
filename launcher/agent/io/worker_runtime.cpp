// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/worker_runtime.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "launcher/agent/misconfiguration.h"
#include "launcher/workers/gpu_usage.h"
#include "launcher/workers/io/process_tree.h"
#include "proto/bounds.h"
#include "proto/environment.h"
#include "proto/signal_names.h"
#include "proto/text.h"
#include "proto/worker_contract.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun::io {

namespace {

std::string read_process(int pid, const char* name) {
  return read_proc("/proc/" + std::to_string(pid) + "/" + name, bounds::socket_table_bytes_max)
      .value_or("");
}

// The inodes from the "socket:[4711]" links of all open descriptors.
std::set<std::string> sockets_of(int pid) {
  constexpr std::string_view beginning = "socket:[";
  std::set<std::string> inodes;
  std::error_code unreadable;  // the process has exited or may not be inspected
  const auto directory = "/proc/" + std::to_string(pid) + "/fd";
  for (const auto& each : std::filesystem::directory_iterator(directory, unreadable)) {
    std::error_code closed;  // closed meanwhile
    const auto target = std::filesystem::read_symlink(each.path(), closed).string();
    if (!target.starts_with(beginning)) continue;
    inodes.insert(target.substr(beginning.size(), target.size() - beginning.size() - 1));
  }
  return inodes;
}

ProcessUse use_of(int pid) {
  return process_use(read_process(pid, "stat"), ::sysconf(_SC_CLK_TCK));
}

}  // namespace

WorldProbe probe_world(int pid) {
  WorldProbe look;
  std::map<std::string, int> port_of_inode;
  for (const char* table : {"net/tcp", "net/tcp6"})
    add_listening(read_process(pid, table), port_of_inode);
  std::vector<int> family = descendants_of(pid);
  family.insert(family.begin(), pid);
  if (family.size() > bounds::family_looked_at_max) family.resize(bounds::family_looked_at_max);
  const ProcessUse worker = use_of(pid);
  for (const int each : family) {
    const ProcessUse use = use_of(each);
    look.processor_time += use.processor_time;
    if (each != pid && is_spawned(use, worker)) look.spawned.push_back(fmt::format("pid {}", each));
    for (const std::string& inode : sockets_of(each)) {
      const auto found = port_of_inode.find(inode);
      if (found == port_of_inode.end()) continue;
      look.listeners.push_back(fmt::format("pid {} listens on port {}", each, found->second));
    }
  }
  // A single one is multiprocessing's resource tracker for shared memory.
  if (look.spawned.size() == 1) look.spawned.clear();
  return look;
}

WorkerRuntime::WorkerRuntime(asio::io_context& context, RunInputs& inputs, Watchdog& watchdog,
                             OutputPump& pump, Callbacks callbacks)
    : context_(context),
      inputs_(inputs),
      watchdog_(watchdog),
      pump_(pump),
      callbacks_(std::move(callbacks)),
      gpus_(context, *inputs.side) {}

Result<void> WorkerRuntime::open(std::vector<int> spared) {
  auto logs =
      LogDir::make(inputs_.config, inputs_.environment, watchdog_.directory(), *inputs_.side);
  if (!logs) return tl::unexpected<Error>(logs.error());
  logs_.emplace(std::move(*logs));
  if (!logs_->note().empty()) inputs_.config.notes.push_back(logs_->note());
  collector_.emplace(context_, *inputs_.side, pump_, inputs_.environment, logs_->run_directory());
  processes_.emplace(context_, callbacks_of_processes(), std::move(spared),
                     WorkerProcesses::Terms{.open_files = inputs_.open_files,
                                            .job_processes = inputs_.job_processes,
                                            .niceness = inputs_.niceness,
                                            .side = inputs_.side.get(),
                                            .environment = inputs_.environment});
  return {};
}

WorkerProcesses::Callbacks WorkerRuntime::callbacks_of_processes() {
  return {
      .exited =
          [this](LocalRank rank, link::ExitStatus status) {
            callbacks_.publish(events::WorkerExited{spec(rank).rank, rank, pid_of(rank), status});
            tell(supervisor::Exited{rank, status, wall_now()});
          },
      .group_gone =
          [this](LocalRank rank) {
            watchdog_.remove_group(pid_of(rank));
            pump_.close(rank);
            tell(supervisor::GroupGone{rank});
          },
      .tree_seen =
          [this](std::vector<TreeProcess> seen) { tell(supervisor::TreeSeen{std::move(seen)}); },
      .spared_ended = callbacks_.spared_ended};
}

void WorkerRuntime::end_logs(bool is_handed_over) {
  if (logs_ && is_handed_over) logs_->hand_over_directory();
  logs_.reset();
}

void WorkerRuntime::prepare(const agent::Prepare& action) {
  specs_ = action.specs;
  pids_.assign(specs_.size(), 0);
  heartbeat_files_.begin();
  no_room_.reset();
  collector_->begin();
  // In a single-node job, no heartbeats are delayed by waiting for the disk.
  const bool alone = inputs_.config.nodes_max == 1;
  const Duration timeout =
      alone ? bounds::disk_timeout_at_end : Duration(bounds::disk_timeout_meanwhile);
  if (const auto made = logs_->prepare(specs_, *inputs_.side, timeout); !made) {
    callbacks_.publish(events::Note{made.error().reason, LogLevel::error});
    no_room_ = SpawnError{SpawnStage::log_directory, made.error().error_number};
    return;
  }
  pump_.open_logs(specs_, timeout);
}

void WorkerRuntime::work(const agent::Work& action) {
  std::visit(Overloaded{
                 [this](const supervisor::Spawn& m) { spawn(m.spec); },
                 [this](const supervisor::SignalGroup& m) {
                   processes_->signal_group(m.local_rank, m.signal);
                 },
                 [this](const supervisor::SignalWorker& m) { deliver(m); },
                 [this](const supervisor::SignalMain& m) {
                   processes_->signal_main(m.local_rank, m.signal);
                 },
                 [this](const supervisor::SignalProcess& m) {
                   processes_->signal_process(m.pid, m.started, m.signal);
                 },
                 [this](const supervisor::WatchTree&) { processes_->watch_tree(); },
                 [this](const supervisor::Release& m) { processes_->release(m.local_rank); },
                 [this](const supervisor::Sweep& m) { processes_->sweep(m.local_rank); },
                 [this](const supervisor::SweepNode&) {
                   processes_->sweep_node([this] { tell(supervisor::NodeSwept{}); });
                 },
                 [this](const supervisor::ReadHeartbeats&) { look_at_beats(); },
             },
             action.action);
}

void WorkerRuntime::deliver(const supervisor::SignalWorker& action) {
  if (processes_->signal_worker(action.local_rank, action.signal)) return;
  callbacks_.publish(events::Note{
      fmt::format("rank {} has no handler for {}, which would kill it, so it was not asked to "
                  "save: install a handler in the worker before its first step",
                  spec(action.local_rank).rank.value, signal_name(action.signal)),
      LogLevel::warning});
}

void WorkerRuntime::look_at_beats() {
  tell(supervisor::HeartbeatsSeen{heartbeat_files_.read(boot_now()), wall_now()});
}

void WorkerRuntime::spawn(WorkerSpec spec) {
  const LocalRank rank = spec.local_rank;
  // Overrides an inherited value: if cpprun is itself a worker, that file is cpprun's.
  spec.variables[std::string(heartbeat_variable)] = heartbeat_files_.make(rank);
  const auto failed = [&](const SpawnError& error) {
    callbacks_.publish(events::WorkerNotStarted{spec.rank, rank, to_text(error.stage)});
    tell(supervisor::SpawnFailed{rank, error, wall_now()});
  };
  if (no_room_) return failed(*no_room_);
  auto streams = pump_.attach(spec);
  if (!streams) return failed(streams.error());
  const auto pid = processes_->spawn(spec, *streams);
  pump_.release(*streams);
  if (!pid) {
    pump_.close(rank);
    return failed(pid.error());
  }
  watchdog_.add_group(*pid);
  pid_of(rank) = *pid;
  callbacks_.publish(events::WorkerStarted{spec.rank, rank, *pid});
  tell(supervisor::Started{rank, *pid});
}

void WorkerRuntime::examine(const agent::Examine& action) {
  const auto hear = [this, stray = action.unreachable_interface](Evidence evidence, bool whole) {
    evidence.host_facts.unreachable_interface = stray;
    if (!whole) {
      callbacks_.publish(events::Note{
          fmt::format("the files of rank {} could not be read within {} s and are missing in the "
                      "report: the disk of the logs, of TMPDIR or of the directory cpprun was "
                      "started in hangs",
                      evidence.outcome.rank.value, bounds::evidence_timeout.count()),
          LogLevel::warning});
    }
    callbacks_.post(agent::Examined{std::move(evidence)});
  };
  collector_->examine(action.outcome, spec(action.outcome.local_rank), hear);
}

// The first worker's pid is 0 if it could not be started. Then there is nothing to inspect.
void WorkerRuntime::probe_world(bool store_asked) {
  WorldProbe look{.store_asked = store_asked};
  if (!store_asked && !pids_.empty() && pids_.front() != 0) look = io::probe_world(pids_.front());
  callbacks_.post(agent::WorldSeen{std::move(look)});
}

std::optional<link::GpuUse> WorkerRuntime::gpu_of(const WorkerView& view, TimePoint now) const {
  const auto& readings = gpus_.readings(now);
  if (readings.empty()) return std::nullopt;
  constexpr auto name = contract::cuda_visible_devices;
  const auto* visible = find_variable(spec(view.local_rank).variables, name);
  if (visible == nullptr) visible = find_variable(inputs_.environment, name);
  return gpu_of_worker(readings, view.pid,
                       visible == nullptr ? std::nullopt : std::optional(*visible),
                       view.local_rank);
}

void WorkerRuntime::sample_workers(const agent::SampleWorkers& action) {
  const TimePoint now = boot_now();
  gpus_.sample(now);
  const auto readings = heartbeat_files_.read(now);
  std::vector<WorkerSight> sights(action.workers.size());
  for (std::size_t at = 0; at < sights.size(); ++at) {
    const WorkerView& view = action.workers[at];
    WorkerSight& sight = sights[at];
    sight.local_rank = view.local_rank;
    const auto beat = std::ranges::find(readings, view.local_rank, &HeartbeatReading::local_rank);
    if (beat != readings.end()) sight.beat = *beat;
    const bool is_there = view.state == WorkerState::running || view.state == WorkerState::ending;
    if (const auto usage = is_there ? usage_of(view.pid) : std::nullopt) {
      sight.resident_kib = usage->resident_kib;
      sight.cpu = usage->cpu;
    }
    if (const auto output = pump_.last_output(view.local_rank)) {
      sight.last_words = now - output->at;
      std::string line = output->line;
      std::ranges::replace(line, '\t', ' ');
      sight.last_line = plain_line(line, link::last_line_bytes_max);
    }
    if (is_there) sight.gpu = gpu_of(view, now);
  }
  callbacks_.post(agent::WorkersSeen{std::move(sights)});
}

std::string WorkerRuntime::look_before_kill(LocalRank local_rank) {
  collector_->look_before_kill(local_rank, pid_of(local_rank));
  return collector_->last_seen(local_rank);
}

}  // namespace cpprun::io
