// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/status_json.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <utility>

#include "proto/link/values_json.h"
#include "proto/signal_names.h"

namespace cpprun {

namespace {

using Json = nlohmann::ordered_json;

double seconds_since_epoch(WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

template <class Value, class Write>
Json nullable(const std::optional<Value>& value, Write&& write) {
  return value ? Json(write(*value)) : Json(nullptr);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json time_json(const std::optional<TimePoint>& moment, const ClockPair& clocks) {
  return nullable(moment, [&](TimePoint at) { return seconds_since_epoch(clocks.by_wall(at)); });
}

Json failure_json(const link::Failure& failure) {
  const auto& status = failure.status;
  return {{"rank", failure.rank.value},
          {"local_rank", failure.local_rank.value},
          {"node", failure.group_rank.value},
          {"host", failure.host},
          {"pid", failure.pid},
          {"exit_code", link::exit_code_of(status)},
          {"signal", status.signalled ? Json(signal_name(status.value)) : Json(nullptr)},
          {"time", seconds_since_epoch(failure.time)},
          {"message", failure.message},
          {"cause", failure.cause},
          {"consequence", failure.consequence}};
}

Json counts_json(const NodeCounts& nodes) {
  return {{"waiting", nodes.waiting},
          {"running", nodes.running},
          {"succeeded", nodes.succeeded},
          {"drained", nodes.drained},
          {"away", nodes.away}};
}

Json budgets_json(const JobSnapshot& job) {
  Json budgets = Json::array();
  const auto& all = job.terms.restarts.budgets;
  for (std::size_t at = 0; at < job.budgets_left.size(); ++at) {
    const auto as_it_is = [](int count) { return count; };
    budgets.push_back({{"cause", all[at].cause},
                       {"max", nullable(all[at].max, as_it_is)},
                       {"left", nullable(job.budgets_left[at], as_it_is)}});
  }
  return budgets;
}

Json summary_json(const JobSnapshot& job, const ClockPair& moment) {
  Json json;
  json["job"] = job.terms.id;
  json["state"] = name_of(job.state);
  json["since"] = time_json(job.since, moment);
  json["round"] = job.round.value;
  json["nodes_min"] = job.terms.nodes_min;
  json["nodes_max"] = job.terms.nodes_max;
  json["nodes"] = counts_json(job.nodes);
  json["world_size"] = job.world_size;
  json["restarts"] = job.restarts_used;
  json["restarts_max"] = job.terms.restarts.max;
  json["restarts_left"] = job.restarts_left;
  json["restart_backoff"] = in_seconds(job.terms.restarts.backoff);
  json["restart_window"] = in_seconds(job.terms.restarts.window);
  json["no_restart_codes"] = job.terms.restarts.final_codes;
  json["restart_budgets"] = budgets_json(job);
  json["policy"] = to_text(job.terms.restarts);
  json["lease"] = in_seconds(job.lease);
  json["silence_max"] = nullable(job.silence_max, in_seconds);
  json["exit_code"] = nullable(job.finish, [](const auto& finish) { return finish.exit_code; });
  json["reason"] = job.finish ? job.finish->reason : std::string();
  return json;
}

Json round_json(const RoundRecord& round, const ClockPair& moment) {
  Json json;
  json["round"] = round.round.value;
  json["restart"] = round.restart;
  json["began"] = seconds_since_epoch(moment.by_wall(round.began));
  json["ended"] = time_json(round.ended, moment);
  json["reason"] = round.reason;
  json["failure"] = nullable(round.root, failure_json);
  json["consequences"] = Json::array();
  for (const auto& each : round.consequences) {
    json["consequences"].push_back({{"rank", each.rank.value},
                                    {"node", each.group_rank.value},
                                    {"exit_code", link::exit_code_of(each.status)}});
  }
  json["consequence_count"] = round.consequence_count;
  return json;
}

double per_thousand(std::int64_t number) {
  return static_cast<double>(number) / 1000;
}

Json number_json(const std::optional<std::int64_t>& number) {
  return nullable(number, [](std::int64_t value) { return value; });
}

std::optional<std::int64_t> bytes_of(const std::optional<std::int64_t>& kib) {
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

// Rounded to whole milliseconds, to avoid floating-point noise.
Json age_json(const std::optional<Duration>& age) {
  return nullable(age, [](Duration value) {
    return per_thousand(std::chrono::duration_cast<std::chrono::milliseconds>(value).count());
  });
}

Json metric_json(const link::Metric& metric) {
  return nullable(metric.value, [](double value) { return value; });
}

Json worker_json(const WorkerSnapshot& worker, const ClockPair& moment) {
  const auto& figures = worker.figures;
  Json json;
  json["rank"] = worker.rank.value;
  json["local_rank"] = figures.local_rank.value;
  json["pid"] = figures.pid;
  json["state"] = to_text(figures.state);
  json["since"] = seconds_since_epoch(moment.by_wall(moment.now - figures.since));
  json["step"] = number_json(figures.step);
  json["steps_per_second"] = nullable(figures.millisteps_per_second, per_thousand);
  json["samples"] = number_json(figures.samples);
  json["checkpoint_step"] = number_json(figures.checkpoint_step);
  json["total"] = number_json(figures.total);
  json["metrics"] = Json::object();
  for (const link::Metric& each : figures.metrics) json["metrics"][each.name] = metric_json(each);
  json["beat_age"] = age_json(figures.last_beat);
  json["resident_bytes"] = number_json(bytes_of(figures.resident_kib));
  json["cpu_percent"] = number_json(figures.cpu_percent);
  json["words_age"] = age_json(figures.last_words);
  json["last_line"] = figures.last_line;
  json["gpu"] = nullable(figures.gpu, [](const link::GpuUse& gpu) {
    return Json{{"index", gpu.index},
                {"percent", gpu.percent < 0 ? Json() : Json(gpu.percent)},
                {"used_bytes", gpu.used_mib << 20},
                {"total_bytes", gpu.total_mib << 20}};
  });
  json["told"] = seconds_since_epoch(moment.by_wall(worker.at));
  return json;
}

Json progress_json(const JobProgress& progress) {
  Json json;
  json["workers"] = progress.workers;
  json["beating"] = progress.beating;
  json["step_min"] = number_json(progress.step_min);
  json["step_max"] = number_json(progress.step_max);
  json["checkpoint_step"] = number_json(progress.checkpoint_step);
  json["total"] = number_json(progress.total);
  json["remaining"] = nullable(progress.remaining, in_seconds);
  json["metrics"] = Json::array();
  for (const auto& [metric, rank] : progress.metrics) {
    json["metrics"].push_back(
        {{"name", metric.name}, {"rank", rank.value}, {"value", metric_json(metric)}});
  }
  json["steps_per_second_min"] = nullable(progress.millisteps_per_second_min, per_thousand);
  json["beat_age_max"] = age_json(progress.beat_age_max);
  json["resident_bytes_max"] = number_json(bytes_of(progress.resident_kib_max));
  json["told_age_max"] = age_json(progress.told_ago_max);
  json["slowest"] = Json::array();
  for (const SlowWorker& each : progress.slowest) {
    const auto& figures = each.worker.figures;
    json["slowest"].push_back(
        {{"rank", each.worker.rank.value},
         {"node", each.node.value},
         {"host", each.host},
         {"pid", figures.pid},
         {"step", number_json(figures.step)},
         {"steps_per_second", nullable(figures.millisteps_per_second, per_thousand)},
         {"beat_age", age_json(figures.last_beat)}});
  }
  return json;
}

Json node_json(const NodeSnapshot& node, const ClockPair& moment) {
  Json json;
  json["host"] = node.host;
  json["node"] = nullable(node.node, [](GroupRank rank) { return rank.value; });
  json["state"] = name_of(node.state);
  json["since"] = seconds_since_epoch(moment.by_wall(node.since));
  json["silence"] = nullable(node.silence, in_seconds);
  json["connected"] = node.connected;
  json["leaving"] = node.leaving;
  json["hosts_coordinator"] = node.local;
  json["pid"] = node.pid;
  json["workers"] = node.workers;
  json["base_rank"] = nullable(node.base_rank, [](Rank rank) { return rank.value; });
  json["role"] = node.role;
  json["ranks"] = Json::array();
  for (const auto& each : node.ranks) json["ranks"].push_back(worker_json(each, moment));
  return json;
}

// Invalid UTF-8 in text from other machines is replaced instead of failing the reply.
std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string jobs_json(const std::vector<JobSnapshot>& jobs, const std::optional<std::string>& next,
                      const ClockPair& moment, const Viewer& viewer) {
  Json json;
  json["time"] = seconds_since_epoch(moment.wall);
  json["status_page"] = text_or_null(viewer.status_page);
  json["jobs"] = Json::array();
  for (const auto& job : jobs) json["jobs"].push_back(summary_json(job, moment));
  json["next"] = nullable(next, [](const std::string& id) { return id; });
  return line_of(json);
}

std::string job_json(const JobDetails& details, const ClockPair& moment, const Viewer& viewer) {
  Json json = summary_json(details.job, moment);
  json["time"] = seconds_since_epoch(moment.wall);
  json["status_page"] = text_or_null(viewer.status_page);
  json["may_control"] = viewer.may_control;
  json["command"] = text_or_null(viewer.hosted.command);
  json["user"] = text_or_null(viewer.hosted.user);
  json["log_directory"] = text_or_null(viewer.hosted.log_directory);
  json["waits_for"] = details.waits_for;
  json["cover"] = details.cover;
  json["durable"] = nullable(details.durable, [](bool durable) { return durable; });
  json["warnings"] = details.warnings;
  json["root"] = details.job.finish ? nullable(details.job.finish->root, failure_json) : nullptr;
  json["time_use"] = link::readable_json(details.job.time);
  json["progress"] = nullable(details.job.progress, progress_json);
  json["rounds"] = Json::array();
  for (const auto& round : details.rounds) json["rounds"].push_back(round_json(round, moment));
  json["rounds_left_out"] = details.rounds_left_out;
  return line_of(json);
}

std::string nodes_json(const NodePage& page, const ClockPair& moment) {
  Json json;
  json["time"] = seconds_since_epoch(moment.wall);
  json["nodes"] = Json::array();
  for (const auto& node : page.nodes) json["nodes"].push_back(node_json(node, moment));
  json["next"] = nullable(page.next, [](const NodePosition& place) { return to_text(place); });
  return line_of(json);
}

nlohmann::ordered_json shown_failure(const link::Failure& failure) {
  return failure_json(failure);
}

std::string error_json(const std::string& reason) {
  Json json;
  json["error"] = reason;
  return line_of(json);
}

namespace {

double unix_seconds(WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// Rounded to whole microseconds, to avoid floating-point noise.
Json length_json(const std::optional<Duration>& length) {
  if (!length) return nullptr;
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(*length).count();
  return static_cast<double>(whole) / 1e6;
}

void add_change(const LeaderChange& change, Json& json) {
  json["from"] = text_or_null(change.from_place);
  json["to"] = change.to_place;
  json["from_name"] = text_or_null(change.from);
  json["to_name"] = change.to;
  json["epoch"] = change.epoch;
  json["reason"] = change.reason;
  json["silence"] = length_json(change.silence);
}

Json change_json(const LeaderChange& change) {
  Json json{{"time", unix_seconds(change.time)}};
  add_change(change, json);
  return json;
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string daemon_json(const DaemonSnapshot& daemon, const ClockPair& moment) {
  Json json;
  json["time"] = unix_seconds(moment.wall);
  json["name"] = daemon.name;
  json["place"] = daemon.place;
  json["version"] = daemon.version;
  json["role"] = daemon.leads ? "leads" : "stands_by";
  json["judge"] = daemon.has_etcd ? Json("etcd") : Json(nullptr);
  json["leader"] = text_or_null(daemon.leader);
  json["leader_place"] = text_or_null(daemon.leader_address);
  json["epoch"] = daemon.epoch;
  json["since"] = daemon.since ? Json(unix_seconds(*daemon.since)) : Json(nullptr);
  json["in_sync"] = daemon.leads ? Json(nullptr) : Json(daemon.is_in_sync);
  json["standbys"] = Json::array();
  for (const StandbySnapshot& each : daemon.standbys) {
    json["standbys"].push_back({{"name", each.name},
                                {"place", each.place},
                                {"version", each.version},
                                {"in_sync", each.is_in_sync},
                                {"bytes_behind", each.bytes_behind}});
  }
  json["durable"] = daemon.durable ? Json(*daemon.durable) : Json(nullptr);
  json["synced"] = daemon.is_synced;
  json["trouble"] = text_or_null(daemon.trouble);
  json["changes"] = daemon.changes;
  json["last_change"] = daemon.last_change ? change_json(*daemon.last_change) : Json(nullptr);
  json["warnings"] = warnings_of(daemon);
  return text_of(json) + "\n";
}

std::string leader_changed_line(const LeaderChange& change, const std::string& host) {
  Json json;
  json["time"] = unix_seconds(change.time);
  json["event"] = "leader_changed";
  json["job"] = "";  // it concerns all jobs
  json["host"] = host;
  json["node"] = nullptr;
  json["round"] = 0;
  add_change(change, json);
  return text_of(json);
}

namespace {

const char* name_of(coordinator::NodeChange::Kind kind) {
  switch (kind) {
    case coordinator::NodeChange::Kind::joined:
      return "node_joined";
    case coordinator::NodeChange::Kind::lost:
      return "node_lost";
    case coordinator::NodeChange::Kind::left:
      return "node_left";
  }
  return "node_left";
}

// The members an event adds to those that all events have; empty: not an event.
using Members = std::optional<Json>;

Members members_of(const coordinator::NodeChange& change) {
  Json json{{"event", name_of(change.kind)}, {"changed_host", change.host}};
  json["changed_node"] = change.rank ? Json(change.rank->value) : Json(nullptr);
  if (change.kind != coordinator::NodeChange::Kind::joined) json["reason"] = change.reason;
  return json;
}

Members members_of(const link::Sealed& sealed, RoundNumber& told) {
  if (std::exchange(told, sealed.round) == sealed.round) return std::nullopt;
  return Json{{"event", "round_sealed"},
              {"restart", sealed.restart_count},
              {"nodes", sealed.group_world_size},
              {"world_size", sealed.world_size},
              {"base_rank", nullptr}};
}

Members members_of(const link::Drain& drain, RoundNumber& told) {
  if (std::exchange(told, drain.round) == drain.round) return std::nullopt;
  return Json{{"event", "draining"}, {"reason", drain.reason}, {"signal", nullptr}};
}

Members members_of(const link::Finish& finish, bool& told) {
  if (std::exchange(told, true)) return std::nullopt;
  return Json{{"event", "job_ended"},
              {"exit_code", finish.exit_code},
              {"reason", finish.reason},
              {"root", finish.root ? shown_failure(*finish.root) : Json(nullptr)}};
}

Members members_of(const coordinator::Answered& answered) {
  const auto& [ticket, command, outcome] = answered;
  Json json{{"event", "order"},
            {"order", name_of(command.kind)},
            {"by", command.by},
            {"reason", command.reason}};
  json["whom"] = command.whom.empty() ? Json(nullptr) : Json(command.whom);
  const bool is_save = command.kind == OperatorCommand::Kind::save;
  json["signal"] = is_save ? Json(signal_name(command.signal)) : Json(nullptr);
  json["for_s"] = command.length > Duration{} ? Json(in_seconds(command.length)) : Json(nullptr);
  json["outcome"] = name_of(outcome.kind);
  json["said"] = outcome.sentence;
  return json;
}

}  // namespace

std::optional<std::string> JobEvents::line(WallTime time, const std::string& job,
                                           const coordinator::Action& action) {
  if (std::holds_alternative<coordinator::CloseStore>(action)) {
    told_.erase(job);
    return std::nullopt;
  }
  Members members;
  if (const auto* change = std::get_if<coordinator::NodeChange>(&action)) {
    members = members_of(*change);
  } else if (const auto* note = std::get_if<coordinator::Note>(&action)) {
    members = Json{{"event", "coordinator_note"}, {"text", note->line}};
  } else if (const auto* answered = std::get_if<coordinator::Answered>(&action)) {
    members = members_of(*answered);
  } else if (const auto* say = std::get_if<coordinator::Say>(&action)) {
    if (const auto* sealed = std::get_if<link::Sealed>(&say->message)) {
      members = members_of(*sealed, told_[job].sealed);
    } else if (const auto* drain = std::get_if<link::Drain>(&say->message)) {
      members = members_of(*drain, told_[job].drained);
    } else if (const auto* finish = std::get_if<link::Finish>(&say->message)) {
      members = members_of(*finish, told_[job].ended);
    }
  }
  if (!members) return std::nullopt;
  const auto told = told_.find(job);
  Json json;
  json["time"] = std::chrono::duration<double>(time.time_since_epoch()).count();
  json["event"] = "";  // set below; this keeps its position near the beginning
  json["job"] = job;
  json["host"] = host_;
  json["node"] = nullptr;
  json["round"] = told == told_.end() ? 0 : told->second.sealed.value;
  json.update(*members);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cpprun
