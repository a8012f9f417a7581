// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/report_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/report/report.h"
#include "proto/link/values_json.h"
#include "proto/state_machine.h"

namespace cpprun {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int report_version = 1;  // increment when a member changes its meaning

// What this node knows about its own worker; more than is sent to the coordinator.
OrderedJson end_json(const DiagnosedEnd& end, const ReportFacts& facts) {
  const Diagnosis& diagnosis = end.diagnosis();
  const Evidence& evidence = end.evidence();
  const auto program = facts.program.empty() ? std::string() : facts.program.front();
  auto json = to_json(failure_of(end, facts.group_rank, facts.host), program);
  json["message"] = diagnosis.message;
  json["reason"] = diagnosis.reason;
  json["advice"] = diagnosis.advice;
  json["ending"] = diagnosis.ending;
  json["traceback"] = diagnosis.traceback;
  json["last_lines"] = evidence.last_lines;
  json["last_seen"] = evidence.host_facts.last_seen;
  json["kernel"] = evidence.host_facts.kernel_lines;
  json["error_file"] = evidence.error_file;
  json["stdout"] = evidence.stdout_file;
  json["stderr"] = evidence.stderr_file;
  return json;
}

OrderedJson root_json(const ReportFacts& facts) {
  if (!facts.root) return nullptr;
  if (const auto* own = own_root(facts)) return end_json(*own, facts);
  return to_json(*facts.root, facts.program.empty() ? std::string() : facts.program.front());
}

// Only the facts of the failure: the meaning of its cause is given once, in the root.
OrderedJson attempt_json(const Attempt& attempt) {
  OrderedJson json;
  json["round"] = attempt.round.value;
  json["restart"] = attempt.restart;
  json["began"] = unix_seconds(attempt.began);
  json["ended"] = unix_seconds(attempt.ended);
  json["reason"] = attempt.reason;
  json["failure"] = nullptr;
  if (attempt.failure) {
    json["failure"] = to_json(*attempt.failure, "");
    json["failure"].erase("reason");
    json["failure"].erase("advice");
  }
  return json;
}

}  // namespace

std::string on_one_line(std::string message) {
  constexpr std::string_view line = "\n  hint: ";
  for (auto at = message.find(line); at != std::string::npos; at = message.find(line, at)) {
    message.replace(at, line.size(), "; ");
  }
  return message;
}

std::string report_json(const ReportFacts& facts) {
  OrderedJson json;
  json["version"] = report_version;
  json["state"] = !facts.running ? "ended" : facts.reason.empty() ? "running" : "ending";
  json["job"] = facts.job;
  json["succeeded"] = facts.running ? OrderedJson(nullptr) : OrderedJson(facts.exit_code == 0);
  json["exit_code"] = facts.running ? OrderedJson(nullptr) : OrderedJson(facts.exit_code);
  json["reason"] = on_one_line(facts.reason);
  json["host"] = facts.host;
  json["pid"] = facts.pid;
  json["node"] = facts.group_rank.value;
  json["restarts"] = facts.restarts;
  json["started"] = unix_seconds(facts.started);
  json["ended"] = facts.running ? OrderedJson(nullptr) : OrderedJson(unix_seconds(facts.ended));
  json["program"] = facts.program;
  json["interpreter"] = facts.interpreter;
  json["logs"] = facts.logs;
  json["root"] = root_json(facts);
  json["others"] = OrderedJson::array();
  const auto* own = own_root(facts);
  for (const DiagnosedEnd& each : facts.ends) {
    if (&each != own) json["others"].push_back(end_json(each, facts));
  }
  json["consequences"] = OrderedJson::array();
  for (const link::Consequence& each : facts.consequences) {
    json["consequences"].push_back({{"rank", each.rank.value},
                                    {"node", each.group_rank.value},
                                    {"ending", to_text(each.status)},
                                    {"exit_code", link::exit_code_of(each.status)}});
  }
  json["consequence_count"] = facts.consequence_count;
  json["time_use"] = facts.time ? link::readable_json(*facts.time) : OrderedJson(nullptr);
  json["attempts"] = OrderedJson::array();
  for (const Attempt& each : facts.attempts.list(facts.ended)) {
    json["attempts"].push_back(attempt_json(each));
  }
  json["attempts_left_out"] = facts.attempts.left_out();
  json["leader_changes"] = OrderedJson::array();
  for (const auto& [time, each] : facts.leader_changes) {
    json["leader_changes"].push_back({{"time", unix_seconds(time)},
                                      {"from", to_string(each.from)},
                                      {"to", to_string(each.to)},
                                      {"epoch", each.epoch},
                                      {"silence", in_seconds(each.silence)}});
  }
  json["leader_changes_left_out"] = facts.leader_changes_left_out;
  return to_text(json, 2) + "\n";
}

double unix_seconds(WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

nlohmann::ordered_json to_json(const link::Failure& failure, const std::string& executable) {
  const auto status = own_status(failure);
  const auto* cause = find_cause(failure.cause);
  nlohmann::ordered_json json;
  json["rank"] = failure.rank.value;
  json["local_rank"] = failure.local_rank.value;
  json["node"] = failure.group_rank.value;
  json["host"] = failure.host;
  json["pid"] = failure.pid;
  json["exit_code"] = link::exit_code_of(status);
  json["signal"] = status.signalled ? nlohmann::ordered_json(signal_name(status.value)) : nullptr;
  json["time"] = unix_seconds(failure.time);
  json["message"] = failure.message;
  json["cause"] = failure.cause;
  json["reason"] = cause == nullptr ? "" : std::string(cause->sentence);
  json["advice"] = cause == nullptr ? "" : cause_advice(*cause, executable);
  json["consequence"] = failure.consequence;
  return json;
}

std::string to_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

namespace {

struct EventWriter {
  OrderedJson& json;
  const std::string& executable;

  const char* operator()(const events::JobStarted& m) const {
    json["program"] = m.program;
    json["nodes_min"] = m.nodes_min;
    json["nodes_max"] = m.nodes_max;
    json["workers"] = m.workers;
    return "job_started";
  }
  const char* operator()(const events::RoundSealed& m) const {
    json["restart"] = m.sealed.restart_count;
    json["nodes"] = m.sealed.group_world_size;
    json["world_size"] = m.sealed.world_size;
    json["base_rank"] = m.sealed.base_rank.value;
    return "round_sealed";
  }
  const char* operator()(const events::WorkerStarted& m) const {
    say_worker(m.rank, m.local_rank);
    json["pid"] = m.pid;
    return "worker_started";
  }
  const char* operator()(const events::WorkerNotStarted& m) const {
    say_worker(m.rank, m.local_rank);
    json["reason"] = m.reason;
    return "worker_not_started";
  }
  const char* operator()(const events::WorkerExited& m) const {
    say_worker(m.rank, m.local_rank);
    json["pid"] = m.pid;
    json["exit_code"] = link::exit_code_of(m.status);
    json["signal"] =
        m.status.signalled ? OrderedJson(signal_name(m.status.value)) : OrderedJson(nullptr);
    return "worker_exited";
  }
  const char* operator()(const events::WorkerFailed& m) const {
    json["failure"] = to_json(m.failure, executable);
    return "worker_failed";
  }
  const char* operator()(const events::Draining& m) const {
    json["reason"] = m.reason;
    json["signal"] = signal_name(m.signal);
    return "draining";
  }
  const char* operator()(const events::WorkerKilled& m) const {
    json["local_rank"] = m.local_rank.value;
    json["last_seen"] = m.last_seen;
    return "worker_killed";
  }
  const char* operator()(const events::Waiting& m) const {
    json["reason"] = m.reason;
    return "waiting";
  }
  const char* operator()(const events::CoordinatorNoted& m) const {
    json["text"] = m.text;
    return "coordinator_note";
  }
  const char* operator()(const events::NodeChange& m) const {
    json["changed_host"] = m.host;
    json["changed_node"] = m.rank ? OrderedJson(m.rank->value) : OrderedJson(nullptr);
    if (m.kind == events::NodeChange::Kind::joined) return "node_joined";
    json["reason"] = m.reason;
    return m.kind == events::NodeChange::Kind::lost ? "node_lost" : "node_left";
  }
  const char* operator()(const events::Answered& m) const {
    const auto& [ticket, command, outcome] = m;
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
  const char* operator()(const events::LeaseNearlyMissed& m) const {
    json["silence"] = in_seconds(m.silence);
    json["lease"] = in_seconds(m.lease);
    return "lease_nearly_missed";
  }
  const char* operator()(const events::LeaderChanged& m) const {
    json["from"] = to_string(m.from);
    json["to"] = to_string(m.to);
    json["epoch"] = m.epoch;
    json["silence"] = in_seconds(m.silence);
    return "leader_changed";
  }
  const char* operator()(const events::EventsLost& m) const {
    json["count"] = m.count;
    return "events_lost";
  }
  const char* operator()(const events::JobEnded& m) const {
    json["exit_code"] = m.exit_code;
    json["reason"] = on_one_line(m.reason);
    json["root"] = m.root ? to_json(*m.root, executable) : OrderedJson(nullptr);
    return "job_ended";
  }
  const char* operator()(const events::Note&) const { return ""; }
  const char* operator()(const events::FirstFailure&) const { return ""; }
  const char* operator()(const events::RoundJudged&) const { return ""; }

  void say_worker(Rank rank, LocalRank local_rank) const {
    json["rank"] = rank.value;
    json["local_rank"] = local_rank.value;
  }
};

}  // namespace

bool is_logged(const events::Event& event) {
  return !std::holds_alternative<events::Note>(event) &&
         !std::holds_alternative<events::FirstFailure>(event) &&
         !std::holds_alternative<events::RoundJudged>(event);
}

std::string EventLog::line(WallTime time, const events::Event& event) {
  if (const auto* sealed = std::get_if<events::RoundSealed>(&event)) {
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
