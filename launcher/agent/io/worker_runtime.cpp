// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/worker_runtime.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "launcher/agent/bounds.h"
#include "launcher/agent/misconfiguration.h"
#include "launcher/failure/bounds.h"
#include "launcher/hang/io/stack_collector.h"
#include "launcher/hang/observation.h"
#include "launcher/hang/probe.h"
#include "launcher/output/bounds.h"
#include "launcher/plan/io/host.h"
#include "launcher/plan/program.h"
#include "launcher/workers/gpu_usage.h"
#include "launcher/workers/io/process_tree.h"
#include "launcher/workers/round_messages.h"
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

// The workers answer within 2 s, or do not.
constexpr Duration observation_timeout = std::chrono::seconds(3);
constexpr Duration last_lines_timeout = std::chrono::milliseconds(400);
// A disk that hangs costs a capture that time twice: it may have to wait for an earlier read.
static_assert(2 * last_lines_timeout + observation_timeout < LocalWorkers::capture_max);
// Then it is asked again only now and then.
constexpr int unanswered_max = 3;
constexpr int unanswered_pause = 8;

// For a decision between a loop and a computation. Python answers mostly at the same few lines.
constexpr int stack_samples = 4;

// A worker that is alive may have caught the error, and run on, unless it printed its traceback.
bool has_given_up(const std::vector<std::string>& last_lines, bool has_exited) {
  return gave_up_waiting(last_lines, has_exited) &&
         (has_exited || !hang::parse_printed_traceback(last_lines).empty());
}

// Read and written by that process, by its system calls.
std::uint64_t bytes_of(int pid) {
  std::uint64_t sum = 0;
  const std::string io = read_process(pid, "io");
  for (const auto line : split(io, '\n')) {
    if (!line.starts_with("rchar: ") && !line.starts_with("wchar: ")) continue;
    sum += exact_number<std::uint64_t>(line.substr(line.find(' ') + 1)).value_or(0);
  }
  return sum;
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
      rounds_(context, {.pid_of =
                            [this](LocalRank rank) {
                              return std::cmp_less(rank.value, pids_.size()) ? pid_of(rank) : 0;
                            },
                        .rejoins = [this](const supervisor::Rejoins& waits) { tell(waits); },
                        .rejected =
                            [this](const std::string& reason) {
                              callbacks_.publish(events::Note{
                                  "rejected a connection to " + rounds_.path() + ": " + reason,
                                  LogLevel::warning});
                            }}),
      gpus_(context, *inputs.side),
      files_(context, *inputs.side, last_lines_timeout, /*only_in_helper=*/true),
      observations_(context, *inputs.side, observation_timeout, /*only_in_helper=*/true),
      captures_(context, *inputs.side, observation_timeout, /*only_in_helper=*/true),
      stacks_files_(context, *inputs.side, bounds::disk_timeout_meanwhile) {
  pump_.watch_stderr([this](std::string_view line) {
    if (shows_timeout(line)) callbacks_.post(agent::TimeoutSeen{});
  });
}

Result<void> WorkerRuntime::open(std::vector<int> spared) {
  auto logs =
      LogDir::make(inputs_.config, inputs_.environment, watchdog_.directory(), *inputs_.side);
  if (!logs) return tl::unexpected<Error>(logs.error());
  logs_.emplace(std::move(*logs));
  if (!logs_->note().empty()) inputs_.config.notes.push_back(logs_->note());
  if (inputs_.config.probes()) open_probes();
  if (inputs_.config.restarts.reconfigures) open_rounds();
  open_processes(std::move(spared));
  return {};
}

Result<WorkerRuntime::Carried> WorkerRuntime::carried() const {
  auto processes = processes_->carried();
  if (!processes) return tl::unexpected<Error>(processes.error());
  auto output = pump_.carried();
  if (!output) return tl::unexpected<Error>(output.error());
  return Carried{.processes = *std::move(processes),
                 .logs = logs_->carried(),
                 .output = *std::move(output),
                 .heartbeat_files = heartbeat_files_.descriptors(),
                 .has_probes = !probe_directory_.empty()};
}

void WorkerRuntime::adopt(Carried carried, std::vector<WorkerSpec> specs) {
  specs_ = std::move(specs);
  logs_.emplace(LogDir::adopt(inputs_.config, std::move(carried.logs)));
  if (carried.has_probes) probe_directory_ = watchdog_.directory();
  open_processes({});
  collector_->begin();
  pids_.assign(specs_.size(), 0);
  for (const auto& each : carried.processes.workers) pid_of(each.local_rank) = each.pid;
  for (const auto& [rank, file] : carried.heartbeat_files) heartbeat_files_.adopt(rank, file);
  pump_.adopt(specs_, carried.output);
  processes_->adopt(carried.processes, specs_);
}

void WorkerRuntime::open_processes(std::vector<int> spared) {
  py_spy_ = find_on_path("py-spy", inputs_.environment, probe_file).value_or("");
  collector_.emplace(context_, *inputs_.side, pump_, inputs_.environment, logs_->run_directory());
  processes_.emplace(context_, callbacks_of_processes(), std::move(spared),
                     WorkerProcesses::Terms{.open_files = inputs_.open_files,
                                            .job_processes = inputs_.job_processes,
                                            .niceness = inputs_.niceness,
                                            .side = inputs_.side.get(),
                                            .environment = inputs_.environment,
                                            .are_traceable = inputs_.config.probe != Probe::off,
                                            .warm_modules = inputs_.config.warm_modules});
}

// Without probes the job runs as well, and less is known if it hangs.
void WorkerRuntime::open_probes() {
  const std::string directory = watchdog_.directory();
  const auto socket = hang::probe_socket(directory, LocalRank{inputs_.config.local_world_size - 1});
  const auto write = [&directory] {
    const auto path = fmt::format("{}/{}", directory, hang::probe_file);
    return answer_of(
        write_whole_file(path, std::string(hang::probe_source)).map([] { return std::string(); }));
  };
  const auto written = socket ? result_of(inputs_.side->ask(write, bounds::disk_timeout_at_start),
                                          fmt::format("the disk of {} does not respond", directory))
                              : socket;
  if (written) {
    probe_directory_ = directory;
  } else {
    inputs_.config.notes.push_back(
        "warning: --probe: the stacks of Python workers cannot be read: " + written.error().reason);
  }
}

// Without it, all workers are restarted after a failure.
void WorkerRuntime::open_rounds() {
  const std::string directory = watchdog_.directory();
  const auto opened = directory.empty() ? failure("there is no directory for its socket")
                                        : rounds_.open(directory + "/rounds");
  if (!opened) {
    inputs_.config.notes.push_back("warning: --on-failure=reconfigure: workers are restarted: " +
                                   opened.error().reason);
  }
}

WorkerProcesses::Callbacks WorkerRuntime::callbacks_of_processes() {
  return {
      .exited =
          [this](LocalRank rank, link::ExitStatus status) {
            callbacks_.publish(events::WorkerExited{spec(rank).rank, rank, pid_of(rank), status});
            pump_.drain(rank);  // Its output may show a timeout, and comes first.
            tell(supervisor::Exited{rank, status, wall_now()});
          },
      .group_gone =
          [this](LocalRank rank, int pid) {
            watchdog_.remove_group(pid);
            pump_.close(rank);
            tell(supervisor::GroupGone{rank});
          },
      .tree_seen =
          [this](std::vector<TreeProcess> seen) { tell(supervisor::TreeSeen{std::move(seen)}); },
      .spared_ended = callbacks_.spared_ended,
      .note =
          [this](const std::string& text, LogLevel level) {
            callbacks_.publish(events::Note{text, level});
          }};
}

void WorkerRuntime::end_logs(bool is_handed_over) {
  if (logs_ && is_handed_over) logs_->hand_over_directory();
  logs_.reset();
}

void WorkerRuntime::prepare(const agent::Prepare& action) {
  std::vector<WorkerSpec> started;
  if (action.is_restart) {
    started = action.specs;
    for (const WorkerSpec& spec : started) {
      specs_[static_cast<std::size_t>(spec.local_rank.value)] = spec;
      pid_of(spec.local_rank) = 0;
      no_room_.erase(spec.local_rank);
      collector_->forget(spec.local_rank);
      unanswered_.erase(spec.local_rank);
      file_lines_.erase(spec.local_rank);
    }
  } else {
    specs_ = action.specs;
    round_ = action.round;
    pids_.resize(specs_.size());
    for (const WorkerSpec& each : specs_) {
      if (std::ranges::find(action.remaining, each.local_rank) != action.remaining.end()) continue;
      pid_of(each.local_rank) = 0;
      started.push_back(each);
    }
    heartbeat_files_.begin(action.remaining);
    rounds_.begin_round();
    no_room_.clear();
    unanswered_.clear();
    file_lines_.clear();
    collector_->begin();
    processes_->begin_round(started);
  }
  // In a single-node job, no heartbeats are delayed by waiting for the disk. But while other
  // workers run, both steps together have only the shorter time.
  const bool alone = inputs_.config.nodes_max == 1 && !action.is_restart;
  const Duration timeout =
      alone ? bounds::disk_timeout_at_end : Duration(bounds::disk_timeout_meanwhile);
  const TimePoint end = boot_now() + timeout;
  const auto made = logs_->prepare(started, *inputs_.side, timeout, action.is_restart);
  if (!made) {
    callbacks_.publish(events::Note{made.error().reason, LogLevel::error});
    for (const WorkerSpec& each : started) {
      no_room_[each.local_rank] = SpawnError{SpawnStage::log_directory, made.error().error_number};
    }
    return;
  }
  const Duration left = action.is_restart ? std::max(end - boot_now(), Duration{}) : timeout;
  pump_.open_logs(started, left, action.is_restart || !action.remaining.empty());
}

void WorkerRuntime::work(const agent::Work& action) {
  std::visit(
      Overloaded{
          [this](const supervisor::Spawn& m) { spawn(m.spec); },
          [this](const supervisor::TakePlace& m) {
            if (rounds_.place(m.spec.local_rank, place_message(m.spec, round_))) return;
            // It has closed its connection meanwhile, and would wait without an end.
            processes_->signal_main(m.spec.local_rank, SIGTERM);
          },
          [this](const supervisor::LeaveRound& m) {
            if (rounds_.send(m.local_rank, broken_message(m.round))) return;
            // It has closed its connection, so it cannot leave the round.
            processes_->signal_main(m.local_rank, SIGTERM);
          },
          [this](const supervisor::SignalGroup& m) {
            processes_->signal_group(m.local_rank, m.signal);
          },
          [this](const supervisor::SignalWorker& m) { deliver(m); },
          [this](const supervisor::DumpStack& m) {
            // Not sent if the worker has no handler. KILL follows in any case.
            static_cast<void>(processes_->signal_worker(m.local_rank, hang::stack_dump_signal));
          },
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
  if (!probe_directory_.empty()) {
    hang::add_probe(spec.variables, inputs_.environment, probe_directory_,
                    hang::probe_socket(probe_directory_, rank).value_or(""));
  }
  if (!rounds_.path().empty()) {
    spec.variables[std::string(contract::round_socket)] = rounds_.path();
    rounds_.place(rank, place_message(spec, round_));
  }
  const auto no_room = no_room_.find(rank);
  if (no_room != no_room_.end()) return not_started(rank, no_room->second);
  auto streams = pump_.attach(spec);
  if (!streams) return not_started(rank, streams.error());
  processes_->start(spec, *streams,
                    [this, rank, streams = *streams](const WorkerProcesses::Spawned& pid) mutable {
                      pump_.release(streams);
                      if (!pid) {
                        pump_.close(rank);
                        return not_started(rank, pid.error());
                      }
                      watchdog_.add_group(*pid);
                      pid_of(rank) = *pid;
                      callbacks_.publish(events::WorkerStarted{this->spec(rank).rank, rank, *pid});
                      tell(supervisor::Started{rank, *pid});
                    });
}

void WorkerRuntime::not_started(LocalRank rank, const SpawnError& error) {
  callbacks_.publish(events::WorkerNotStarted{spec(rank).rank, rank, to_text(error.stage)});
  tell(supervisor::SpawnFailed{rank, error, wall_now()});
}

void WorkerRuntime::examine(const agent::Examine& action) {
  Outcome outcome = action.outcome;
  if (outcome.time == WallTime{}) outcome.time = wall_now();  // see Agent::take(link::Verdict)
  const auto hear = [this, stray = action.unreachable_interface](Evidence evidence, bool whole) {
    evidence.host_facts.unreachable_interface = stray;
    if (!whole) {
      callbacks_.publish(events::Note{
          fmt::format("the report lacks the files of rank {}, which could not be read within {} s: "
                      "the disk of the logs, of TMPDIR or of the working directory does not "
                      "respond",
                      evidence.outcome.rank.value, bounds::evidence_timeout.count()),
          LogLevel::warning});
    }
    callbacks_.post(agent::Examined{std::move(evidence)});
  };
  collector_->examine(outcome, spec(outcome.local_rank), hear);
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

void WorkerRuntime::read_progress() {
  const auto readings = heartbeat_files_.read(boot_now());
  std::vector<ProgressSigns> signs;
  for (const WorkerSpec& spec : specs_) {
    const int pid = pid_of(spec.local_rank);
    const auto usage = pid == 0 ? std::nullopt : usage_of(pid);
    if (!usage) continue;
    ProgressSigns each{.local_rank = spec.local_rank,
                       .cpu = usage->cpu + cpu_wait_of(pid),
                       .bytes = bytes_of(pid),
                       .memory_kib = usage->resident_kib};
    const auto beat = std::ranges::find(readings, spec.local_rank, &HeartbeatReading::local_rank);
    if (beat != readings.end()) each.beats = beat->beats;
    if (const auto output = pump_.last_output(spec.local_rank)) each.last_output = output->at;
    std::vector<int> children = descendants_of(pid);
    if (children.size() > bounds::family_looked_at_max) {
      children.resize(bounds::family_looked_at_max);
    }
    for (const int child : children) {
      if (const auto used = usage_of(child)) each.children_cpu += used->cpu + cpu_wait_of(child);
      each.children_bytes += bytes_of(child);
    }
    signs.push_back(each);
  }
  callbacks_.post(agent::ProgressSeen{std::move(signs)});
}

void WorkerRuntime::read_files(std::vector<LocalRank> ranks, std::function<void()> then) {
  std::vector<std::string> paths;
  for (const LocalRank rank : ranks) paths.push_back(spec(rank).err.file);
  files_.ask(
      [paths = std::move(paths)] {
        std::vector<std::string> tails;
        for (const std::string& path : paths) tails.push_back(packed(io::read_last_lines(path)));
        return packed(tails);
      },
      [this, ranks = std::move(ranks),
       then = std::move(then)](const std::optional<std::string>& answer) {
        const auto tails = unpacked(answer.value_or(""));
        for (std::size_t at = 0; at < std::min(tails.size(), ranks.size()); ++at) {
          file_lines_[ranks[at]] = unpacked(tails[at]);
        }
        then();
      });
}

std::vector<std::string> WorkerRuntime::last_lines(LocalRank local_rank) const {
  const auto found = file_lines_.find(local_rank);
  return found != file_lines_.end() ? found->second : pump_.last_lines(local_rank);
}

void WorkerRuntime::read_last_lines(const agent::ReadLastLines& action) {
  read_files({action.local_rank}, [this, rank = action.local_rank] {
    callbacks_.post(agent::LastLinesRead{std::ranges::any_of(last_lines(rank), shows_timeout)});
  });
}

void WorkerRuntime::observe_workers(const agent::ObserveWorkers& action) {
  std::vector<LocalRank> with_file;
  for (const WorkerSpec& each : specs_) {
    if (each.err.target == StreamTarget::file) with_file.push_back(each.local_rank);
  }
  if (!action.is_timeout || with_file.empty()) return capture(action);
  read_files(std::move(with_file), [this, action] { capture(action); });
}

void WorkerRuntime::capture(const agent::ObserveWorkers& action) {
  const bool is_capture = action.number != 0;
  std::vector<ObservedWorker> workers;
  for (const WorkerSpec& spec : specs_) {
    const int pid = pid_of(spec.local_rank);
    const auto stat = pid == 0 ? std::nullopt : read_stat(pid);
    const auto socket = probe_directory_.empty()
                            ? Result<std::string>()
                            : hang::probe_socket(probe_directory_, spec.local_rank);
    const int unanswered = unanswered_[spec.local_rank];
    const bool may_answer = unanswered < unanswered_max || unanswered % unanswered_pause == 0;
    workers.push_back(
        {.local_rank = spec.local_rank,
         .rank = spec.rank,
         .pid = pid,
         .has_exited = pid == 0 || !stat || !stat->alive(),
         .socket = socket.value_or(""),
         .asks_all = is_capture || may_answer,
         .is_ending = action.is_timeout && has_given_up(last_lines(spec.local_rank), false)});
  }
  AsyncTask& task = is_capture ? captures_ : observations_;
  task.ask(
      [workers, is_capture, native = action.native, py_spy = py_spy_] {
        return hang::to_text(
            io::observe_workers(workers, {.samples = is_capture ? 1 : stack_samples,
                                          .from_outside = is_capture,
                                          .native = native,
                                          .py_spy = is_capture ? py_spy : ""}));
      },
      [this, action](const std::optional<std::string>& answer) {
        agent::WorkersObserved observed{
            .number = action.number, .observations = {}, .time = wall_now()};
        if (answer) {
          if (auto read = hang::observations_of(*answer)) observed.observations = std::move(*read);
        }
        for (hang::Observation& each : observed.observations) {
          const auto lines =
              action.is_timeout ? last_lines(each.local_rank) : std::vector<std::string>{};
          if (has_given_up(lines, each.has_exited)) each.last_lines = lines;
          int& unanswered = unanswered_[each.local_rank];
          unanswered = each.traceback.kind == hang::Answer::Kind::silent ? unanswered + 1 : 0;
        }
        if (action.number != 0) observed.stacks_file = write_stacks(action, observed.observations);
        callbacks_.post(std::move(observed));
      });
}

// Returns the file's name; empty if there is none. The disk may be what hangs: nothing waits for
// it.
std::string WorkerRuntime::write_stacks(const agent::ObserveWorkers& action,
                                        const std::vector<hang::Observation>& observations) {
  if (!logs_ || logs_->run_directory().empty() || observations.empty()) return "";
  auto file = fmt::format("{}/stacks-{}.txt", logs_->run_directory(), action.round.value);
  stacks_files_.ask(
      [file, observations] {
        std::string text;
        for (const hang::Observation& each : observations) text += hang::full_text(each) + "\n";
        const auto written = write_whole_file(file, text);
        return written ? std::string() : written.error().reason;
      },
      [this, file](const std::optional<std::string>& answer) {
        const std::string why = answer.value_or("its disk does not respond");
        if (why.empty()) return;
        callbacks_.publish(
            events::Note{fmt::format("cannot write {}: {}", file, why), LogLevel::warning});
      });
  return file;
}

std::string WorkerRuntime::look_before_kill(LocalRank local_rank) {
  collector_->look_before_kill(local_rank, pid_of(local_rank));
  return collector_->last_seen(local_rank);
}

}  // namespace cpprun::io
