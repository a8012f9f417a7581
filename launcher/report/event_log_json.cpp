// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/event_log_json.h"
#include "launcher/report/report_json.h"
#include "proto/state_machine.h"

namespace cpprun {

namespace {

using OrderedJson = nlohmann::ordered_json;

struct EventWriter {
  OrderedJson& json;
  const std::string& executable;

  const char* operator()(const event_log::JobStarted& m) const {
    json["program"] = m.program;
    json["nodes_min"] = m.nodes_min;
    json["nodes_max"] = m.nodes_max;
    json["workers"] = m.workers;
    return "job_started";
  }
  const char* operator()(const event_log::RoundSealed& m) const {
    json["restart"] = m.sealed.restart_count;
    json["nodes"] = m.sealed.group_world_size;
    json["world_size"] = m.sealed.world_size;
    json["base_rank"] = m.sealed.base_rank.value;
    return "round_sealed";
  }
  const char* operator()(const event_log::WorkerStarted& m) const {
    say_worker(m.rank, m.local_rank);
    json["pid"] = m.pid;
    return "worker_started";
  }
  const char* operator()(const event_log::WorkerNotStarted& m) const {
    say_worker(m.rank, m.local_rank);
    json["reason"] = m.reason;
    return "worker_not_started";
  }
  const char* operator()(const event_log::WorkerExited& m) const {
    say_worker(m.rank, m.local_rank);
    json["pid"] = m.pid;
    json["exit_code"] = link::exit_code_of(m.status);
    json["signal"] =
        m.status.signalled ? OrderedJson(signal_name(m.status.value)) : OrderedJson(nullptr);
    return "worker_exited";
  }
  const char* operator()(const event_log::WorkerFailed& m) const {
    json["failure"] = to_json(m.failure, executable);
    return "worker_failed";
  }
  const char* operator()(const event_log::Draining& m) const {
    json["reason"] = m.reason;
    json["signal"] = signal_name(m.signal);
    return "draining";
  }
  const char* operator()(const event_log::WorkerKilled& m) const {
    json["local_rank"] = m.local_rank.value;
    json["last_seen"] = m.last_seen;
    return "worker_killed";
  }
  const char* operator()(const event_log::Waiting& m) const {
    json["reason"] = m.reason;
    return "waiting";
  }
  const char* operator()(const event_log::CoordinatorNoted& m) const {
    json["text"] = m.text;
    return "coordinator_note";
  }
  const char* operator()(const event_log::NodeChanged& m) const {
    json["changed_host"] = m.change.host;
    json["changed_node"] = m.change.rank ? OrderedJson(m.change.rank->value) : OrderedJson(nullptr);
    if (m.change.kind == coordinator::NodeChange::Kind::joined) return "node_joined";
    json["reason"] = m.change.reason;
    return m.change.kind == coordinator::NodeChange::Kind::lost ? "node_lost" : "node_left";
  }
  const char* operator()(const event_log::Ordered& m) const {
    const auto& [ticket, command, outcome] = m.answered;
    json["order"] = name_of(command.kind);
    json["by"] = command.by;
    json["reason"] = command.reason;
    json["whom"] = command.whom.empty() ? OrderedJson(nullptr) : OrderedJson(command.whom);
    json["signal"] = command.kind == OperatorCommand::Kind::save
                         ? OrderedJson(signal_name(command.signal))
                         : OrderedJson();
    json["for_s"] =
        command.length > Duration{} ? OrderedJson(in_seconds(command.length)) : OrderedJson();
    json["outcome"] = name_of(outcome.kind);
    json["said"] = outcome.sentence;
    return "order";
  }
  const char* operator()(const event_log::LeaseNearlyMissed& m) const {
    json["silence"] = in_seconds(m.silence);
    json["lease"] = in_seconds(m.lease);
    return "lease_nearly_missed";
  }
  const char* operator()(const event_log::LeaderChanged& m) const {
    json["from"] = m.from;
    json["to"] = m.to;
    json["epoch"] = m.epoch;
    json["silence"] = in_seconds(m.silence);
    return "leader_changed";
  }
  const char* operator()(const event_log::EventsLost& m) const {
    json["count"] = m.count;
    return "events_lost";
  }
  const char* operator()(const event_log::JobEnded& m) const {
    json["exit_code"] = m.exit_code;
    json["reason"] = on_one_line(m.reason);
    json["root"] = m.root ? to_json(*m.root, executable) : OrderedJson(nullptr);
    return "job_ended";
  }

  void say_worker(Rank rank, LocalRank local_rank) const {
    json["rank"] = rank.value;
    json["local_rank"] = local_rank.value;
  }
};

}  // namespace

std::string EventLog::line(WallTime time, const event_log::Event& event) {
  if (const auto* sealed = std::get_if<event_log::RoundSealed>(&event)) {
    round_ = sealed->sealed.round;
    group_rank_ = sealed->sealed.group_rank;
  }
  OrderedJson json;
  json["time"] = unix_seconds(time);
  json["event"] = "";  // reserves its position at the start; set below
  json["job"] = source_.job;
  json["host"] = source_.host;
  json["node"] = group_rank_.value;
  json["round"] = round_.value;
  json["event"] = std::visit(EventWriter{json, source_.executable}, event);
  return to_text(json) + "\n";
}

}  // namespace cpprun
