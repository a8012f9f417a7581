// SPDX-License-Identifier: BSD-3-Clause
// What the runtime does for each action of the agent. The dispatch loop is in runtime.cpp.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cerrno>
#include <utility>

#include "launcher/agent/agent_text.h"
#include "launcher/agent/io/runtime.h"
#include "launcher/agent/io/world_look.h"
#include "launcher/io/wall_clock.h"
#include "launcher/workers/io/process_tree.h"
#include "proto/bounds.h"
#include "proto/signal_names.h"
#include "proto/worker_contract.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun::io {

namespace {

// How long to wait for the consoles after a stop signal. Its sender may send KILL after 30 s, of
// which the workers' grace period takes up to 25 s.
constexpr auto patience_when_asked = std::chrono::seconds(3);

}  // namespace

// --- the workers ---------------------------------------------------------------------------------

void Runtime::on(const agent::Prepare& action) {
  specs_ = action.specs;
  pids_.assign(specs_.size(), 0);
  heartbeat_files_.begin();
  ends_.clear();
  no_room_.reset();
  collector_->begin();
  // In a single-node job, no heartbeats are delayed by waiting for the disk.
  const bool alone = inputs_.config.nodes_max == 1;
  const Duration patience =
      alone ? bounds::disk_patience_at_end : Duration(bounds::disk_patience_meanwhile);
  if (const auto made = logs_->prepare(specs_, *inputs_.side, patience); !made) {
    pump_.say(messages_.error(made.error().reason));
    no_room_ = SpawnError{SpawnStage::log_directory, made.error().error_number};
    return;
  }
  pump_.open_logs(specs_, patience);
}

void Runtime::on(const agent::Work& action) {
  std::visit(
      Overloaded{
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
            processes_->sweep_node([this] { post(agent::FromWorker{supervisor::NodeSwept{}}); });
          },
          [this](const supervisor::ReadHeartbeats&) { look_at_beats(); },
      },
      action.action);
}

void Runtime::deliver(const supervisor::SignalWorker& action) {
  if (processes_->signal_worker(action.local_rank, action.signal)) return;
  const WorkerSpec& spec = specs_[static_cast<std::size_t>(action.local_rank.value)];
  pump_.say(messages_.warning(
      fmt::format("rank {} has no handler for {}, which would kill it, so it was not asked to "
                  "save: install a handler in the worker before its first step",
                  spec.rank.value, signal_name(action.signal))));
}

void Runtime::look_at_beats() {
  post(
      agent::FromWorker{supervisor::HeartbeatsSeen{heartbeat_files_.read(boot_now()), wall_now()}});
}

void Runtime::spawn(WorkerSpec spec) {
  const LocalRank rank = spec.local_rank;
  // Overrides an inherited value: if cpprun is itself a worker, that file is cpprun's.
  spec.variables[std::string(heartbeat_variable)] = heartbeat_files_.make(rank);
  const auto failed = [&](const SpawnError& error) {
    note(event_log::WorkerNotStarted{spec.rank, rank, to_text(error.stage)});
    post(agent::FromWorker{supervisor::SpawnFailed{rank, error, wall_now()}});
  };
  if (no_room_) {
    failed(*no_room_);
    return;
  }
  auto streams = pump_.attach(spec);
  if (!streams) {
    failed(streams.error());
    return;
  }
  const auto pid = processes_->spawn(spec, *streams);
  pump_.release(*streams);
  if (!pid) {
    pump_.close(rank);
    failed(pid.error());
    return;
  }
  watchdog_.add_group(*pid);
  pids_[static_cast<std::size_t>(rank.value)] = *pid;
  note(event_log::WorkerStarted{spec.rank, rank, *pid});
  post(agent::FromWorker{supervisor::Started{rank, *pid}});
}

void Runtime::on(const agent::Examine& action) {
  const WorkerSpec& spec = specs_[static_cast<std::size_t>(action.outcome.local_rank.value)];
  const auto hear = [this, stray = action.stray_interface](Evidence evidence, bool whole) {
    evidence.host_facts.stray_interface = stray;
    if (!whole) {
      pump_.say(messages_.warning(fmt::format(
          "the files of rank {} could not be read within {} s and are missing in the report: the "
          "disk of the logs, of TMPDIR or of the directory cpprun was started in hangs",
          evidence.outcome.rank.value, bounds::evidence_patience.count())));
    }
    post(agent::Examined{std::move(evidence)});
  };
  collector_->examine(action.outcome, spec, hear);
}

// The first worker's pid is 0 if it could not be started. Then there is nothing to inspect.
void Runtime::on(const agent::LookAtWorld&) {
  WorldLook look{.store_asked = coordinator_ == nullptr || coordinator_->store_was_asked()};
  if (!look.store_asked && !pids_.empty() && pids_.front() != 0) {
    look = look_at_world(pids_.front());
  }
  post(agent::WorldSeen{std::move(look)});
}

void Runtime::on(const agent::LookAtWorkers& action) {
  const TimePoint now = boot_now();
  const auto readings = heartbeat_files_.read(now);
  std::vector<WorkerSight> sights;
  for (const WorkerView& view : action.workers) {
    WorkerSight sight{.local_rank = view.local_rank};
    const auto beat = std::ranges::find(readings, view.local_rank, &HeartbeatReading::local_rank);
    if (beat != readings.end()) sight.beat = *beat;
    const bool is_there = view.state == WorkerState::running || view.state == WorkerState::ending;
    if (const auto usage = is_there ? usage_of(view.pid) : std::nullopt) {
      sight.resident_kib = usage->resident_kib;
      sight.cpu = usage->cpu;
    }
    if (const auto spoke = pump_.spoke_at(view.local_rank)) sight.last_words = now - *spoke;
    sights.push_back(std::move(sight));
  }
  post(agent::WorkersSeen{std::move(sights)});
}

// --- output --------------------------------------------------------------------------------------

void Runtime::on(const agent::TellStarted& action) {
  if (action.sealed.restart_count > restarts_) announce_report("");
  if (forwarder_) forwarder_->streams().begin_round(action.sealed.round);
  restarts_ = action.sealed.restart_count;
  group_rank_ = action.sealed.group_rank;
  attempts_.begin(wall_now(), action.sealed);
  note(event_log::RoundSealed{action.sealed});
  pump_.say(messages_.started(inputs_.config, action.sealed, inputs_.program, action.sockets,
                              inputs_.config.endpoint.host));
}

void Runtime::on(const agent::TellWaiting& action) {
  note(event_log::Waiting{action.reason});
  pump_.say(messages_.waiting(action.reason));
}

void Runtime::on(const agent::TellDraining& action) {
  note(event_log::Draining{action.draining.reason, action.draining.signal});
  pump_.say(messages_.draining(action.draining));
  attempts_.draining(action.draining.reason);
  look_at_beats();  // read how long nothing was saved while the workers still report it
  // The sender of the stop request may wait less time than the workers are given, so write the
  // report now. Post it, because the workers must be signalled first and a disk may hang.
  asio::post(context_, [this, reason = action.draining.reason] {
    if (!exit_) announce_report(reason);
  });
}

// Called before the signal is sent, while the worker's state can still be inspected.
void Runtime::on(const agent::TellKilling& action) {
  const LocalRank rank = action.killing.local_rank;
  collector_->look_before_kill(rank, pids_[static_cast<std::size_t>(rank.value)]);
  note(event_log::WorkerKilled{rank, collector_->last_seen(rank)});
  pump_.say(messages_.killing(action.killing, inputs_.config.grace, collector_->last_seen(rank)));
}

void Runtime::on(const agent::TellFailed& action) {
  const LocalRank local_rank = action.failed.outcome.local_rank;
  const auto rank = static_cast<std::size_t>(local_rank.value);
  // Before any signal is sent, while it is still visible where the worker hangs.
  if (action.failed.outcome.hung_for) collector_->look_before_kill(local_rank, pids_[rank]);
  pump_.say(messages_.failed(action.failed, specs_[rank].argv.front()));
}

void Runtime::on(const agent::TellDiagnosed& action) {
  note(event_log::WorkerFailed{action.failure});
  if (action.failure.cause != told_to_end) attempts_.failed(action.failure);
  ends_.push_back(action.end);
}

void Runtime::on(const agent::TellNote& action) {
  pump_.say(messages_.note(action.sentence));
}

void Runtime::on(const agent::TellDetail& action) {
  pump_.say(messages_.detail(action.sentence));
}

void Runtime::on(const agent::TellNearMiss& action) {
  note(event_log::LeaseNearlyMissed{action.silence, action.lease});
  pump_.say(
      messages_.warning(lease_nearly_missed_text(action.lease, action.patience, action.silence)));
}

void Runtime::on(const agent::TellTurned& action) {
  const std::string from = to_string(action.from);
  const std::string to = to_string(action.to);
  note(event_log::LeaderChanged{from, to, action.epoch, action.silence});
  leaders_.add({.time = wall_now(),
                .from_place = from,
                .to_place = to,
                .epoch = action.epoch,
                .silence = action.silence});
  pump_.say(
      messages_.note(turned_text(from, to, action.epoch, action.silence, action.keeps_workers)));
}

void Runtime::on(const agent::TellWarning& action) {
  pump_.say(messages_.warning(action.sentence));
}

// --- the end -------------------------------------------------------------------------------------

void Runtime::on(const agent::Exit& action) {
  exit_ = action;
  tell_held_back(TimePoint::max());
  if (exit_->root) attempts_.judged(*exit_->root);
  const auto facts = report_facts(*exit_);
  note(event_log::JobEnded{exit_->code, exit_->reason, facts.root});
  if (exit_->code != 0) say_report(facts);
  leave_report(facts);
  ++files_to_leave_;
  inputs_.output_files.finish_events([this] { file_is_left(); });
  if (restart_state_) {
    ++files_to_leave_;
    const bool goes_on = exit_->code != 0;
    restart_state_->finish(goes_on ? std::optional(coordinator_->restart_state()) : std::nullopt,
                           [this] { file_is_left(); });
  }
  if (exit_->root) leave_error_file(*exit_->root);
  // Its content has been read by now. If a worker had to be given up, the directory stays until the
  // end.
  if (!processes_ || processes_->nobody_is_left()) watchdog_.give_up_folder();
  if (!coordinator_) {
    leave_when_everything_is_said();
    return;
  }
  // The other nodes still have to receive the result. The coordinator reports when they have, or
  // the timeout expires.
  farewell_.expires_after(bounds::farewell_max);
  farewell_.async_wait([this](const asio::error_code& cancelled) {
    if (!cancelled) leave_when_everything_is_said();
  });
}

ReportFacts Runtime::report_facts(const agent::Exit& last) const {
  ReportFacts facts{.job = inputs_.config.job,
                    .entrypoint = inputs_.program.entrypoint,
                    .program = inputs_.program.argv,
                    .interpreter = inputs_.program.interpreter,
                    .host = inputs_.host,
                    .group_rank = last.group_rank,
                    .master = coordinator_ != nullptr || last.group_rank == GroupRank{},
                    .pid = ::getpid(),
                    .exit_code = last.code,
                    .restarts = restarts_,
                    .started = started_,
                    .ended = wall_now(),
                    .root = last.root,
                    .ends = ends_,
                    .consequences = last.consequences,
                    .consequence_count = last.consequence_count,
                    .time = last.time,
                    .attempts = attempts_.list(wall_now()),
                    .attempts_left_out = attempts_.left_out(),
                    .leaders = leaders_,
                    .reason = last.reason,
                    .logs = logs_ ? logs_->run_folder() : "",
                    .utc_offset_seconds = inputs_.utc_offset_seconds,
                    .colour = inputs_.style.colour};
  const auto& arguments = inputs_.config.program.arguments;
  facts.program.insert(facts.program.end(), arguments.begin(), arguments.end());
  if (facts.root && facts.root->time == WallTime{}) facts.root->time = facts.ended;
  return facts;
}

void Runtime::say_report(const ReportFacts& facts) {
  // Stopped on request, rejected, or the master is lost: no worker of this job is to blame.
  pump_.say(facts.root ? report(facts) : messages_.error(facts.reason));
}

void Runtime::leave_report(const ReportFacts& facts) {
  if (!inputs_.output_files.keeps_report()) return;
  const auto beside = fmt::format(".node{}", facts.group_rank.value);
  ++files_to_leave_;
  inputs_.output_files.leave_report_later(
      report_json(facts), beside, [this](const Result<std::string>& left) {
        const auto& wanted = inputs_.config.logs.report_file;
        if (!left) {
          pump_.say(messages_.error(left.error().reason));
        } else if (*left != wanted) {
          pump_.say(messages_.warning(
              fmt::format("--report: another node writes to \"{}\"; this node's report is \"{}\"",
                          wanted, *left)));
        }
        file_is_left();
      });
}

// Writes that the job runs, or why its workers are being stopped.
void Runtime::announce_report(const std::string& reason) {
  if (!inputs_.output_files.keeps_report()) return;
  auto facts = report_facts(agent::Exit{.reason = reason});
  facts.running = true;
  inputs_.output_files.announce_report_later(report_json(facts));
}

// Writes the root cause where torchrun would have written it, for the process that started cpprun.
void Runtime::leave_error_file(const link::Failure& root) {
  const std::string* path = find_variable(inputs_.environment, contract::error_file);
  if (path == nullptr || path->empty()) return;
  for (const DiagnosedEnd& end : ends_) {
    const Evidence& each = end.evidence();
    if (each.outcome.rank != root.rank || each.error_text.empty()) continue;
    const auto text = with_exit_code(each.error_text, link::exit_code_of(root.status));
    if (!text) {
      pump_.say(messages_.warning(text.error().reason));
      continue;
    }
    ++files_to_leave_;
    error_file_.ask(
        [path = *path, text = *text] {
          const auto written = write_whole_file(path, text);
          return written ? std::string() : written.error().reason;
        },
        [this, path = *path](const std::optional<std::string>& wrong) {
          const auto why =
              wrong.value_or(fmt::format("cannot write \"{}\": its disk does not respond", path));
          if (!why.empty()) pump_.say(messages_.warning(why));
          file_is_left();
        });
  }
}

void Runtime::file_is_left() {
  --files_to_leave_;
  if (files_to_leave_ == 0 && flush_after_) leave_within(*flush_after_);
}

void Runtime::leave_when_everything_is_said() {
  if (leaving_) return;
  leave_within(is_asked_to_end_ ? patience_when_asked : bounds::console_patience);
}

void Runtime::leave_within(Duration patience) {
  leaving_ = true;
  farewell_.cancel();
  flush_after_ = std::min(flush_after_.value_or(patience), patience);
  // Writing the files may produce more output, on success or failure.
  if (files_to_leave_ == 0) pump_.flush(*flush_after_, [this] { context_.stop(); });
}

}  // namespace cpprun::io
