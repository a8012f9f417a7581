// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/report_json.h"

#include <algorithm>

#include "launcher/report/report.h"
#include "proto/link/values_json.h"

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
  for (const Attempt& each : facts.attempts) json["attempts"].push_back(attempt_json(each));
  json["attempts_left_out"] = facts.attempts_left_out;
  json["leader_changes"] = OrderedJson::array();
  for (const LeaderChange& each : facts.leaders.list()) {
    json["leader_changes"].push_back({{"time", unix_seconds(each.time)},
                                      {"from", each.from_place},
                                      {"to", each.to_place},
                                      {"epoch", each.epoch},
                                      {"silence", in_seconds(each.silence.value_or(Duration{}))}});
  }
  json["leader_changes_left_out"] = facts.leaders.left_out();
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

}  // namespace cpprun
