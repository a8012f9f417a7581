// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/report_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/report/report.h"
#include "proto/fields_json.h"
#include "proto/link/values_json.h"
#include "rendezvous/status/status_json.h"

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

// This node's other workers that failed.
OrderedJson others_json(const ReportFacts& facts) {
  OrderedJson json = OrderedJson::array();
  const auto* own = own_root(facts);
  for (const DiagnosedEnd& each : facts.ends) {
    if (&each != own) json.push_back(end_json(each, facts));
  }
  return json;
}

struct ReportFormat {
  // Only the facts of the failure: the meaning of its cause is given once, in the root.
  void fields(auto& f, const Attempt& attempt) const {
    f("round", attempt.round), f("restart", attempt.restart), f("began", attempt.began);
    f("ended", attempt.ended), f("reason", attempt.reason), f("failure", attempt.failure);
    f("worker_restarts", attempt.worker_restarts);
  }
  void fields(auto& f, const link::Consequence& each) const {
    f("rank", each.rank), f("node", each.group_rank), f("ending", to_text(each.status));
    f("exit_code", link::exit_code_of(each.status));
  }
  void fields(auto& f, const std::pair<WallTime, events::LeaderChanged>& change) const {
    const auto& [time, leader] = change;
    f("time", time), f("from", to_string(leader.from)), f("to", to_string(leader.to));
    f("epoch", leader.epoch), f("silence", in_seconds(leader.silence));
  }
  void fields(auto& f, const ReportFacts& facts) const {
    const bool is_over = !facts.running;
    f("version", report_version);
    f("state", is_over ? "ended" : facts.reason.empty() ? "running" : "ending");
    f("job", facts.job), f("succeeded", only_if(is_over, facts.exit_code == 0));
    f("exit_code", only_if(is_over, facts.exit_code)), f("reason", on_one_line(facts.reason));
    f("host", facts.host), f("pid", facts.pid), f("node", facts.group_rank);
    f("restarts", facts.restarts), f("started", facts.started);
    f("ended", only_if(is_over, facts.ended)), f("program", facts.program);
    f("interpreter", facts.interpreter), f("logs", facts.logs), f("root", root_json(facts));
    f("others", others_json(facts)), f("consequences", facts.consequences);
    f("consequence_count", facts.consequence_count), f("time_use", facts.time);
    f("attempts", facts.attempts.list(facts.ended));
    f("attempts_left_out", facts.attempts.left_out());
    f("leader_changes", facts.leader_changes);
    f("leader_changes_left_out", facts.leader_changes_left_out), f("hang", facts.hang);
  }

  static OrderedJson write(WallTime time) { return unix_seconds(time); }
  static OrderedJson write(const events::HangFound& hang) {
    OrderedJson json;
    add_event(hang.verdict, hang.stacks_file, json);
    return json;
  }
  static OrderedJson write(const TimeUse& time) { return link::readable_json(time); }
  static OrderedJson write(const link::Failure& failure) {
    auto json = to_json(failure, "");
    json.erase("reason");
    json.erase("advice");
    return json;
  }
};

}  // namespace

std::string on_one_line(std::string message) {
  constexpr std::string_view line = "\n  hint: ";
  for (auto at = message.find(line); at != std::string::npos; at = message.find(line, at)) {
    message.replace(at, line.size(), "; ");
  }
  return message;
}

std::string report_json(const ReportFacts& facts) {
  return text_of_json(json_of<OrderedJson>(ReportFormat{}, facts), 2) + "\n";
}

nlohmann::ordered_json to_json(const link::Failure& failure, const std::string& executable) {
  link::Failure own = failure;
  own.status = own_status(failure);
  auto json = shown_failure(own);
  const auto* cause = find_cause(failure.cause);
  json.erase("consequence");  // it is the last member
  json["reason"] = cause == nullptr ? "" : std::string(cause->sentence);
  json["advice"] = cause == nullptr ? "" : cause_advice(*cause, executable);
  json["consequence"] = failure.consequence;
  return json;
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
  const char* operator()(const events::WorkerRestarting& m) const {
    say_worker(m.rank, m.local_rank);
    json["restart"] = m.restart_count;
    json["attempt"] = m.attempt;
    json["pause"] = in_seconds(m.pause);
    json["reason"] = m.reason;
    return "worker_restarting";
  }
  const char* operator()(const events::HangFound& m) const {
    return add_event(m.verdict, m.stacks_file, json);
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
  const char* operator()(const events::NodeChange& m) const { return add_event(m, json); }
  const char* operator()(const events::Answered& m) const { return add_event(m, json); }
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
  const char* operator()(const events::AgentUpgraded& m) const {
    json["from"] = m.from;
    json["to"] = m.to;
    json["took"] = in_seconds(m.took);
    return "agent_upgraded";
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
  return text_of_json(json) + "\n";
}

}  // namespace cpprun
