// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/status_json.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <utility>

#include "proto/fields_json.h"
#include "proto/link/values_json.h"
#include "proto/parse_json.h"
#include "proto/signal_names.h"
#include "rendezvous/hang/evidence_json.h"

namespace cpprun {

namespace {

using Json = nlohmann::ordered_json;

std::optional<double> per_thousand(const std::optional<std::int64_t>& number) {
  return number ? std::optional(static_cast<double>(*number) / 1000) : std::nullopt;
}

std::optional<std::int64_t> bytes_of(const std::optional<std::int64_t>& kib) {
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

// Ages and lengths in seconds, rounded to whole milliseconds or microseconds to avoid
// floating-point noise.
std::optional<double> age_of(const std::optional<Duration>& age) {
  if (!age) return std::nullopt;
  return per_thousand(std::chrono::duration_cast<std::chrono::milliseconds>(*age).count());
}
std::optional<double> length_of(const std::optional<Duration>& length) {
  if (!length) return std::nullopt;
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(*length).count();
  return static_cast<double>(whole) / 1e6;
}

// What is left of a restart budget.
struct BudgetLeft {
  std::string cause;
  std::optional<int> max;
  std::optional<int> left;
};

std::vector<BudgetLeft> budgets_of(const JobSnapshot& job) {
  std::vector<BudgetLeft> budgets;
  const auto& all = job.terms.restarts.budgets;
  for (std::size_t at = 0; at < job.budgets_left.size(); ++at) {
    budgets.push_back({all[at].cause, all[at].max, job.budgets_left[at]});
  }
  return budgets;
}

struct StatusFormat {
  const ClockPair& moment;

  void fields(auto& f, const link::Failure& failure) const {
    const auto& status = failure.status;
    f("rank", failure.rank), f("local_rank", failure.local_rank), f("node", failure.group_rank);
    f("host", failure.host), f("pid", failure.pid), f("exit_code", link::exit_code_of(status));
    f("signal", only_if(status.signalled, signal_name(status.value))), f("time", failure.time);
    f("message", failure.message), f("cause", failure.cause);
    f("consequence", failure.consequence);
  }
  void fields(auto& f, const NodeCounts& nodes) const {
    f("waiting", nodes.waiting), f("running", nodes.running), f("succeeded", nodes.succeeded);
    f("drained", nodes.drained), f("away", nodes.away);
  }
  void fields(auto& f, const BudgetLeft& budget) const {
    f("cause", budget.cause), f("max", budget.max), f("left", budget.left);
  }
  void fields(auto& f, const JobSnapshot& job) const {
    const auto& [id, nodes_min, nodes_max, rules, store_is_local] = job.terms;
    f("job", id), f("state", name_of(job.state)), f("since", job.since), f("round", job.round);
    f("nodes_min", nodes_min), f("nodes_max", nodes_max), f("nodes", job.nodes);
    f("world_size", job.world_size), f("restarts", job.restarts_used);
    f("restarts_max", rules.max), f("restarts_left", job.restarts_left);
    f("restart_backoff", rules.backoff), f("restart_window", rules.window);
    f("no_restart_codes", rules.final_codes), f("restart_budgets", budgets_of(job));
    f("policy", to_text(rules)), f("lease", job.lease), f("silence_max", job.silence_max);
    const bool is_over = job.finish.has_value();
    f("exit_code", only_if(is_over, is_over ? job.finish->exit_code : 0));
    f("reason", is_over ? std::string_view(job.finish->reason) : std::string_view());
  }
  void fields(auto& f, const RoundRecord& round) const {
    f("round", round.round), f("restart", round.restart), f("began", round.began);
    f("ended", round.ended), f("reason", round.reason), f("failure", round.root);
    f("consequences", round.consequences), f("consequence_count", round.consequence_count);
    f("worker_restarts", round.worker_restarts);
  }
  void fields(auto& f, const link::Consequence& each) const {
    f("rank", each.rank), f("node", each.group_rank);
    f("exit_code", link::exit_code_of(each.status));
  }
  void fields(auto& f, const WorkerSnapshot& worker) const {
    const auto& figures = worker.figures;
    f("rank", worker.rank), f("local_rank", figures.local_rank), f("pid", figures.pid);
    f("state", to_text(figures.state)), f("since", moment.now - figures.since);
    f("step", figures.step), f("steps_per_second", per_thousand(figures.millisteps_per_second));
    f("samples", figures.samples), f("checkpoint_step", figures.checkpoint_step);
    f("total", figures.total), f("metrics", figures.metrics);
    f("beat_age", age_of(figures.last_beat)), f("resident_bytes", bytes_of(figures.resident_kib));
    f("cpu_percent", figures.cpu_percent), f("words_age", age_of(figures.last_words));
    f("last_line", figures.last_line), f("gpu", figures.gpu), f("told", worker.at);
  }
  void fields(auto& f, const link::GpuUse& gpu) const {
    f("index", gpu.index), f("percent", only_if(gpu.percent >= 0, gpu.percent));
    f("used_bytes", gpu.used_mib << 20), f("total_bytes", gpu.total_mib << 20);
  }
  void fields(auto& f, const JobProgress& progress) const {
    f("workers", progress.workers), f("beating", progress.beating);
    f("step_min", progress.step_min), f("step_max", progress.step_max);
    f("checkpoint_step", progress.checkpoint_step), f("total", progress.total);
    f("remaining", progress.remaining), f("metrics", progress.metrics);
    f("steps_per_second_min", per_thousand(progress.millisteps_per_second_min));
    f("beat_age_max", age_of(progress.beat_age_max));
    f("resident_bytes_max", bytes_of(progress.resident_kib_max));
    f("told_age_max", age_of(progress.told_ago_max)), f("slowest", progress.slowest);
  }
  void fields(auto& f, const MetricSnapshot& each) const {
    f("name", each.metric.name), f("rank", each.rank), f("value", each.metric.value);
  }
  void fields(auto& f, const SlowWorker& each) const {
    const auto& figures = each.worker.figures;
    f("rank", each.worker.rank), f("node", each.node), f("host", each.host);
    f("pid", figures.pid), f("step", figures.step);
    f("steps_per_second", per_thousand(figures.millisteps_per_second));
    f("beat_age", age_of(figures.last_beat));
  }
  void fields(auto& f, const NodeSnapshot& node) const {
    f("host", node.host), f("node", node.node), f("state", name_of(node.state));
    f("since", node.since), f("silence", node.silence), f("connected", node.connected);
    f("leaving", node.leaving), f("hosts_coordinator", node.local), f("pid", node.pid);
    f("workers", node.workers), f("base_rank", node.base_rank), f("role", node.role);
    f("upgrade", node.upgrade), f("ranks", node.ranks);
  }
  void fields(auto& f, const link::Upgraded& upgrade) const {
    f("number", upgrade.number), f("version", upgrade.version);
    f("error", OrNull{upgrade.error}), f("took", upgrade.took);
  }
  void fields(auto& f, const DaemonSnapshot& daemon) const {
    f("time", moment.wall), f("name", daemon.name), f("place", daemon.place);
    f("version", daemon.version), f("role", daemon.leads ? "leads" : "stands_by");
    f("judge", only_if(daemon.has_etcd, "etcd")), f("leader", OrNull{daemon.leader});
    f("leader_place", OrNull{daemon.leader_address}), f("epoch", daemon.epoch);
    f("since", daemon.since), f("in_sync", only_if(!daemon.leads, daemon.is_in_sync));
    f("standbys", daemon.standbys), f("durable", daemon.durable), f("synced", daemon.is_synced);
    f("trouble", OrNull{daemon.trouble}), f("changes", daemon.changes);
    f("last_change", daemon.last_change), f("warnings", warnings_of(daemon));
  }
  void fields(auto& f, const StandbySnapshot& standby) const {
    f("name", standby.name), f("place", standby.place), f("version", standby.version);
    f("in_sync", standby.is_in_sync), f("bytes_behind", standby.bytes_behind);
  }
  void fields(auto& f, const LeaderChange& change) const {
    f("time", change.time), without_time(f, change);
  }
  void without_time(auto& f, const LeaderChange& change) const {
    f("from", OrNull{change.from_place}), f("to", change.to_place);
    f("from_name", OrNull{change.from}), f("to_name", change.to), f("epoch", change.epoch);
    f("reason", change.reason), f("silence", length_of(change.silence));
  }

  static Json write(Duration length) { return in_seconds(length); }
  static Json write(WallTime time) { return unix_seconds(time); }
  Json write(TimePoint time) const { return unix_seconds(moment.by_wall(time)); }
  static Json write(const TimeUse& time) { return link::readable_json(time); }
  static Json write(const NodePosition& place) { return to_text(place); }
  static Json write(const std::vector<link::Metric>& metrics) {
    Json json = Json::object();
    for (const auto& [name, value] : metrics) json[name] = value ? Json(*value) : Json();
    return json;
  }
};

using StatusWriter = FieldsWriter<Json, StatusFormat>;

std::string line_of(const Json& json) {
  return text_of_json(json) + "\n";
}

}  // namespace

std::string jobs_json(const std::vector<JobSnapshot>& jobs, const std::optional<std::string>& next,
                      const ClockPair& moment, const Viewer& viewer) {
  Json json;
  const StatusFormat format{moment};
  StatusWriter f(format, json);
  f("time", moment.wall), f("status_page", OrNull{viewer.status_page});
  f("jobs", jobs), f("next", next);
  return line_of(json);
}

std::string job_json(const JobDetails& details, const ClockPair& moment, const Viewer& viewer) {
  Json json;
  const StatusFormat format{moment};
  StatusWriter f(format, json);
  const JobSnapshot& job = details.job;
  format.fields(f, job);
  f("time", moment.wall), f("status_page", OrNull{viewer.status_page});
  f("may_control", viewer.may_control), f("command", OrNull{viewer.hosted.command});
  f("user", OrNull{viewer.hosted.user}), f("log_directory", OrNull{viewer.hosted.log_directory});
  f("waits_for", details.waits_for), f("cover", details.cover), f("durable", details.durable);
  f("warnings", details.warnings), f("root", job.finish ? job.finish->root : std::nullopt);
  f("time_use", job.time), f("progress", job.progress), f("rounds", details.rounds);
  f("rounds_left_out", details.rounds_left_out);
  return line_of(json);
}

std::string nodes_json(const NodePage& page, const ClockPair& moment) {
  Json json;
  const StatusFormat format{moment};
  StatusWriter f(format, json);
  f("time", moment.wall), f("nodes", page.nodes), f("next", page.next);
  return line_of(json);
}

nlohmann::ordered_json shown_failure(const link::Failure& failure) {
  return json_of<Json>(StatusFormat{{}}, failure);
}

std::string error_json(const std::string& reason) {
  return line_of({{"error", reason}});
}

std::string daemon_json(const DaemonSnapshot& daemon, const ClockPair& moment) {
  return line_of(json_of<Json>(StatusFormat{moment}, daemon));
}

namespace {

// The members that all events have. The event's name is set later, and keeps this place.
Json event_head(WallTime time, const std::string& job, const std::string& host) {
  return {{"time", unix_seconds(time)},
          {"event", ""},
          {"job", job},
          {"host", host},
          {"node", nullptr},
          {"round", 0}};
}

}  // namespace

std::string leader_changed_line(const LeaderChange& change, const std::string& host) {
  Json json = event_head(change.time, "", host);  // it concerns all jobs
  json["event"] = "leader_changed";
  const ClockPair moment;
  const StatusFormat format{moment};
  StatusWriter f(format, json);
  format.without_time(f, change);
  return text_of_json(json);
}

std::string stacks_json(const Job& job, const ClockPair& moment) {
  Json json = {{"job", job.terms().id}, {"capturing", job.is_capturing()}, {"capture", nullptr}};
  const auto& capture = job.last_capture();
  // Clients poll while one is under way, and the last one may be large.
  if (!capture || job.is_capturing()) return text_of_json(json);
  json["capture"] = {{"number", capture->number},
                     {"round", capture->round.value},
                     {"time", unix_seconds(moment.by_wall(capture->at))},
                     {"world_size", capture->world_size},
                     {"is_hang", capture->is_hang},
                     {"kind", name_of(capture->verdict.kind)},
                     {"verdict", capture->verdict.sentence},
                     {"rank", capture->verdict.rank ? Json(capture->verdict.rank->value) : Json()},
                     {"silent_nodes", capture->silent_nodes}};
  json["capture"].update(parse_json<Json>(hang::evidence_json(capture->evidence)));
  return text_of_json(json);
}

const char* add_event(const coordinator::NodeChange& change, nlohmann::ordered_json& json) {
  using Kind = coordinator::NodeChange::Kind;
  json["changed_host"] = change.host;
  json["changed_node"] = change.rank ? Json(change.rank->value) : Json();
  if (change.kind == Kind::joined) return "node_joined";
  json["reason"] = change.reason;
  return change.kind == Kind::lost ? "node_lost" : "node_left";
}

const char* add_event(const coordinator::Answered& answered, nlohmann::ordered_json& json) {
  const auto& [ticket, command, outcome] = answered;
  const ClockPair moment;
  const StatusFormat format{moment};
  StatusWriter f(format, json);
  f("order", name_of(command.kind)), f("by", command.by), f("reason", command.reason);
  f("whom", OrNull{command.whom});
  f("signal", only_if(command.kind == OperatorCommand::Kind::save, signal_name(command.signal)));
  f("for_s", only_if(command.length > Duration{}, command.length));
  f("outcome", name_of(outcome.kind)), f("said", outcome.sentence);
  return "order";
}

const char* add_event(const link::Verdict& verdict, const std::string& stacks_file,
                      nlohmann::ordered_json& json) {
  json["rank"] = verdict.rank.value;
  json["kind"] = verdict.kind;
  json["verdict"] = verdict.sentence;
  json["quiet"] = in_seconds(verdict.quiet);
  json["timeout"] = verdict.is_timeout;
  json["clusters"] = verdict.clusters;
  json["stacks"] = stacks_file;
  return "job_hung";
}

namespace {

const char* add_event(const link::Sealed& sealed, Json& json) {
  json["restart"] = sealed.restart_count;
  json["nodes"] = sealed.group_world_size;
  json["world_size"] = sealed.world_size;
  json["base_rank"] = nullptr;
  return "round_sealed";
}

const char* add_event(const link::Drain& drain, Json& json) {
  json["reason"] = drain.reason;
  json["signal"] = nullptr;
  return "draining";
}

const char* add_event(const link::Finish& finish, Json& json) {
  json["exit_code"] = finish.exit_code;
  json["reason"] = finish.reason;
  json["root"] = finish.root ? shown_failure(*finish.root) : Json();
  return "job_ended";
}

}  // namespace

const char* JobEvents::add_message(const std::string& job, const link::Message& message,
                                   nlohmann::ordered_json& json) {
  if (const auto* sealed = std::get_if<link::Sealed>(&message)) {
    const auto before = std::exchange(told_[job].sealed, sealed->round);
    return before == sealed->round ? nullptr : add_event(*sealed, json);
  }
  if (const auto* drain = std::get_if<link::Drain>(&message)) {
    const auto before = std::exchange(told_[job].drained, drain->round);
    return before == drain->round ? nullptr : add_event(*drain, json);
  }
  if (const auto* verdict = std::get_if<link::Verdict>(&message)) {
    const std::pair hung{verdict->round, verdict->number};
    return std::exchange(told_[job].hung, hung) == hung ? nullptr : add_event(*verdict, "", json);
  }
  const auto* const finish = std::get_if<link::Finish>(&message);
  if (finish == nullptr || std::exchange(told_[job].ended, true)) return nullptr;
  return add_event(*finish, json);
}

std::optional<std::string> JobEvents::line(WallTime time, const std::string& job,
                                           const coordinator::Action& action) {
  Json json = event_head(time, job, host_);
  const char* event = nullptr;
  if (std::holds_alternative<coordinator::CloseStore>(action)) {
    told_.erase(job);
  } else if (const auto* change = std::get_if<coordinator::NodeChange>(&action)) {
    event = add_event(*change, json);
  } else if (const auto* note = std::get_if<coordinator::Note>(&action)) {
    json["text"] = note->line;
    event = "coordinator_note";
  } else if (const auto* answered = std::get_if<coordinator::Answered>(&action)) {
    event = add_event(*answered, json);
  } else if (const auto* say = std::get_if<coordinator::Say>(&action)) {
    event = add_message(job, say->message, json);
  }
  if (event == nullptr) return std::nullopt;
  json["event"] = event;
  if (const auto told = told_.find(job); told != told_.end()) {
    json["round"] = told->second.sealed.value;
  }
  return text_of_json(json);
}

}  // namespace cpprun
