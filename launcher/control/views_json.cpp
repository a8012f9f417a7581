// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/views.h"
#include "launcher/plan/program.h"
#include "proto/parse_json.h"
#include "proto/result.h"
#include "proto/text.h"
#include "rendezvous/status/page.h"

// Members of foreign JSON. A missing member or one of the wrong type counts as absent.
namespace cpprun::view_json {

using OrderedJson = nlohmann::ordered_json;

inline const OrderedJson* member(const OrderedJson& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

inline std::string text_at(const OrderedJson& json, const char* name) {
  const OrderedJson* found = member(json, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

inline std::optional<double> figure_at(const OrderedJson& json, const char* name) {
  const OrderedJson* found = member(json, name);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  const auto figure = found->get<double>();
  return std::isfinite(figure) ? std::optional(figure) : std::nullopt;
}

// A number outside the type's range counts as absent.
template <class Number>
std::optional<Number> number_at(const OrderedJson& json, const char* name) {
  const auto figure = figure_at(json, name);
  constexpr auto most = static_cast<double>(std::numeric_limits<Number>::max());
  constexpr auto least = static_cast<double>(std::numeric_limits<Number>::min());
  if (!figure || *figure >= most || *figure < least) return std::nullopt;
  return static_cast<Number>(*figure);
}

inline std::vector<std::string> texts_at(const OrderedJson& json, const char* name) {
  std::vector<std::string> texts;
  const OrderedJson* found = member(json, name);
  if (found == nullptr || !found->is_array()) return texts;
  for (const auto& each : *found) {
    if (each.is_string()) texts.push_back(each.get<std::string>());
  }
  return texts;
}

template <class Number>
Number count_at(const OrderedJson& json, const char* name) {
  return number_at<Number>(json, name).value_or(Number{});
}

inline bool flag_at(const OrderedJson& json, const char* name, bool otherwise) {
  const OrderedJson* found = member(json, name);
  return found != nullptr && found->is_boolean() ? found->get<bool>() : otherwise;
}

inline OrderedJson parsed(std::string_view text) {
  return parse_json<OrderedJson>(text);
}

inline tl::unexpected<Error> not_understood() {
  return failure("the response is not JSON from a coordinator (is that a cpprun port?)");
}

inline std::string text_of(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace cpprun::view_json

namespace cpprun {

namespace {

using namespace view_json;

std::optional<std::string> next_at(const OrderedJson& json) {
  auto next = text_at(json, "next");
  return next.empty() ? std::nullopt : std::optional(std::move(next));
}

FailureView failure_of(const OrderedJson& json) {
  return {.rank = count_at<int>(json, "rank"),
          .node = count_at<int>(json, "node"),
          .host = text_at(json, "host"),
          .pid = count_at<int>(json, "pid"),
          .exit_code = count_at<int>(json, "exit_code"),
          .signal = text_at(json, "signal"),
          .message = text_at(json, "message"),
          .cause = text_at(json, "cause")};
}

std::optional<FailureView> failure_at(const OrderedJson& json, const char* name) {
  const OrderedJson* found = member(json, name);
  return found == nullptr ? std::nullopt : std::optional(failure_of(*found));
}

RoundView round_of(const OrderedJson& json) {
  return {.round = count_at<std::int64_t>(json, "round"),
          .restart = count_at<int>(json, "restart"),
          .began = figure_at(json, "began").value_or(0),
          .ended = figure_at(json, "ended"),
          .reason = text_at(json, "reason"),
          .failure = failure_at(json, "failure"),
          .consequence_count = count_at<std::size_t>(json, "consequence_count")};
}

ProgressView progress_of(const OrderedJson& json) {
  ProgressView progress{.step = number_at<std::int64_t>(json, "step_min"),
                        .total = number_at<std::int64_t>(json, "total"),
                        .remaining = figure_at(json, "remaining")};
  const OrderedJson* metrics = member(json, "metrics");
  if (metrics == nullptr || !metrics->is_array()) return progress;
  for (const auto& each : *metrics) {
    progress.metrics.push_back({text_at(each, "name"), figure_at(each, "value")});
  }
  return progress;
}

JobView job_of(const OrderedJson& json) {
  JobView job{.id = text_at(json, "job"),
              .state = text_at(json, "state"),
              .now = figure_at(json, "time").value_or(0),
              .page = text_at(json, "status_page"),
              .command = text_at(json, "command"),
              .user = text_at(json, "user"),
              .since = figure_at(json, "since"),
              .round = count_at<std::int64_t>(json, "round"),
              .nodes_min = count_at<int>(json, "nodes_min"),
              .nodes_max = count_at<int>(json, "nodes_max"),
              .world_size = count_at<int>(json, "world_size"),
              .restarts = count_at<int>(json, "restarts"),
              .restarts_max = count_at<int>(json, "restarts_max"),
              .restarts_left = count_at<int>(json, "restarts_left"),
              .lease = figure_at(json, "lease").value_or(0),
              .silence_max = figure_at(json, "silence_max"),
              .exit_code = number_at<int>(json, "exit_code"),
              .reason = text_at(json, "reason"),
              .waits_for = text_at(json, "waits_for"),
              .cover = text_at(json, "cover"),
              .root = failure_at(json, "root"),
              .rounds_left_out = count_at<std::size_t>(json, "rounds_left_out")};
  if (const OrderedJson* nodes = member(json, "nodes"); nodes != nullptr) {
    job.waiting = count_at<std::size_t>(*nodes, "waiting");
    job.running = count_at<std::size_t>(*nodes, "running");
    job.succeeded = count_at<std::size_t>(*nodes, "succeeded");
    job.drained = count_at<std::size_t>(*nodes, "drained");
    job.away = count_at<std::size_t>(*nodes, "away");
  }
  if (const OrderedJson* rounds = member(json, "rounds"); rounds != nullptr && rounds->is_array()) {
    for (const auto& each : *rounds) job.rounds.push_back(round_of(each));
  }
  job.warnings = texts_at(json, "warnings");
  if (const OrderedJson* progress = member(json, "progress"); progress != nullptr) {
    job.progress = progress_of(*progress);
  }
  return job;
}

// The minimum or the sum of the statistics of a node's workers.
StatsView figures_of(const OrderedJson& node) {
  StatsView figures;
  const OrderedJson* ranks = member(node, "ranks");
  if (ranks == nullptr || !ranks->is_array()) return figures;
  const auto take_least = [](std::optional<double>& least, std::optional<double> figure) {
    if (figure && (!least || *figure < *least)) least = figure;
  };
  const auto add = [](std::optional<double>& sum, std::optional<double> figure) {
    if (figure) sum = sum.value_or(0) + *figure;
  };
  std::set<std::optional<int>> gpus;
  for (const auto& rank : *ranks) {
    take_least(figures.step, figure_at(rank, "step"));
    take_least(figures.steps_per_second, figure_at(rank, "steps_per_second"));
    add(figures.resident_bytes, figure_at(rank, "resident_bytes"));
    add(figures.cpu_percent, figure_at(rank, "cpu_percent"));
    const OrderedJson* const gpu = member(rank, "gpu");
    if (gpu == nullptr) continue;
    take_least(figures.gpu_percent, figure_at(*gpu, "percent"));
    // Several workers may share a GPU.
    if (gpus.insert(number_at<int>(*gpu, "index")).second) {
      add(figures.gpu_used_bytes, figure_at(*gpu, "used_bytes"));
    }
  }
  return figures;
}

NodeView node_of(const OrderedJson& json) {
  return {.host = text_at(json, "host"),
          .node = number_at<int>(json, "node"),
          .state = text_at(json, "state"),
          .since = figure_at(json, "since").value_or(0),
          .silence = figure_at(json, "silence"),
          .is_connected = flag_at(json, "connected", true),
          .is_leaving = flag_at(json, "leaving", false),
          .hosts_coordinator = flag_at(json, "hosts_coordinator", false),
          .pid = count_at<int>(json, "pid"),
          .workers = count_at<int>(json, "workers"),
          .base_rank = number_at<int>(json, "base_rank"),
          .role = text_at(json, "role"),
          .figures = figures_of(json)};
}

// The jobs of several replies, and the endpoints that did not reply.
OrderedJson listed(const std::vector<SeenAnswer>& answers) {
  OrderedJson json;
  json["jobs"] = OrderedJson::array();
  json["silent"] = OrderedJson::array();
  for (const auto& answer : answers) {
    if (!answer.has_answered) {
      json["silent"].push_back({{"at", answer.place}, {"reason", answer.text}});
      continue;
    }
    const OrderedJson seen = parsed(answer.text);
    const OrderedJson* jobs = member(seen, "jobs");
    if (jobs == nullptr || !jobs->is_array()) continue;
    for (OrderedJson job : *jobs) {
      if (!job.is_object()) continue;
      job["time"] = figure_at(seen, "time").value_or(0);
      job["at"] = answer.place;
      json["jobs"].push_back(std::move(job));
    }
  }
  return json;
}

}  // namespace

Result<JobsView> jobs_view(std::string_view text) {
  const OrderedJson json = parsed(text);
  const OrderedJson* jobs = member(json, "jobs");
  if (jobs == nullptr || !jobs->is_array()) return not_understood();
  JobsView view{.jobs = {}, .next = next_at(json)};
  for (const auto& each : *jobs) {
    view.jobs.push_back(job_of(each));
    view.jobs.back().now = figure_at(json, "time").value_or(0);
    view.jobs.back().page = text_at(json, "status_page");
  }
  return view;
}

Result<JobView> job_view(std::string_view text) {
  const OrderedJson json = parsed(text);
  if (member(json, "job") == nullptr) return not_understood();
  return job_of(json);
}

Result<NodesView> nodes_view(std::string_view text) {
  const OrderedJson json = parsed(text);
  const OrderedJson* nodes = member(json, "nodes");
  if (nodes == nullptr || !nodes->is_array()) return not_understood();
  NodesView view{.now = figure_at(json, "time").value_or(0), .nodes = {}, .next = next_at(json)};
  for (const auto& each : *nodes) view.nodes.push_back(node_of(each));
  return view;
}

std::string said_in(std::string_view text) {
  return text_at(parsed(text), "said");
}

std::string error_in(std::string_view text) {
  auto error = text_at(parsed(text), "error");
  // Requests rejected early get their reason as plain text instead of JSON.
  return error.empty() ? plain_line(text.substr(0, text.find('\n'))) : error;
}

std::string order_json(const ControlOptions& options) {
  OrderedJson json = OrderedJson::object();
  if (!options.reason.empty()) json["reason"] = options.reason;
  if (!options.signal.empty()) json["signal"] = options.signal;
  if (options.kind == CommandKind::drain) json["node"] = options.subject;
  const bool is_about_host =
      options.kind == CommandKind::exclude || options.kind == CommandKind::include;
  if (is_about_host && !options.job.empty()) json["job"] = options.job;
  if (options.for_seconds) json["for_s"] = *options.for_seconds;
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string list_json(const std::vector<SeenAnswer>& answers) {
  return text_of(listed(answers));
}

std::string daemons_json(const std::vector<SeenAnswer>& daemons,
                         const std::vector<SeenAnswer>& answers) {
  OrderedJson json;
  json["daemons"] = OrderedJson::array();
  for (const auto& each : daemons) {
    OrderedJson daemon = parsed(each.text);
    if (!daemon.is_object()) continue;
    daemon["at"] = each.place;
    json["daemons"].push_back(std::move(daemon));
  }
  json.update(listed(answers));
  return text_of(json);
}

std::string status_json(std::string_view job, const std::vector<std::string>& node_pages,
                        std::string_view daemon) {
  OrderedJson json = parsed(job);
  if (!json.is_object()) json = OrderedJson::object();
  json["members"] = OrderedJson::array();
  for (const auto& page : node_pages) {
    const OrderedJson parts = parsed(page);
    const OrderedJson* nodes = member(parts, "nodes");
    if (nodes == nullptr || !nodes->is_array()) continue;
    for (const auto& node : *nodes) json["members"].push_back(node);
  }
  json["daemon"] = daemon.empty() ? OrderedJson(nullptr) : parsed(daemon);
  return text_of(json);
}

namespace {

void replace_once(std::string& text, std::string_view old, std::string_view with) {
  text.replace(text.find(old), old.size(), with);
}

}  // namespace

Result<std::string> report_page(std::string_view report) {
  OrderedJson json = parsed(report);
  const auto is_list = [&](const char* name) {
    const OrderedJson* const found = member(json, name);
    const auto is_object = [](const OrderedJson& each) { return each.is_object(); };
    return found != nullptr && found->is_array() && std::ranges::all_of(*found, is_object);
  };
  const bool is_report = is_list("attempts") && is_list("others") && is_list("consequences") &&
                         !text_at(json, "job").empty() && !text_at(json, "state").empty();
  if (!is_report) return failure("not a report of cpprun --report");
  if (const auto version = count_at<int>(json, "version"); version != 1) {
    return failure(fmt::format(
        "report version {}, but this cpprunctl reads version 1; use the cpprunctl of the cpprun "
        "that wrote it",
        version));
  }
  json["command"] = public_command_text(texts_at(json, "program"));
  json.erase("program");
  // Nothing in it ends the element, or is read as markup.
  std::string data;
  for (const char each : text_of(json)) {
    if (each == '<') {
      data += "\\u003c";
    } else if (each == '&') {
      data += "\\u0026";
    } else {
      data += each;
    }
  }
  std::string page(page_html);
  replace_once(page, R"(<p id="report" hidden>)", R"(<p id="report" hidden>)" + data);
  std::string policy(page_policy);
  replace_once(policy, "connect-src 'self'", "connect-src 'none'");
  replace_once(
      page, "<title>",
      fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<title>", policy));
  return page;
}

std::string ending_json(const std::string& job, int exit_code, const std::string& reason) {
  OrderedJson json;
  json["job"] = job;
  json["exit_code"] = exit_code;
  json["reason"] = reason;
  return text_of(json);
}

std::string said_json(const std::string& said) {
  OrderedJson json;
  json["said"] = said;
  return text_of(json);
}

namespace {

StandbyView standby_of(const OrderedJson& json) {
  return {.name = text_at(json, "name"),
          .place = text_at(json, "place"),
          .version = text_at(json, "version"),
          .is_in_sync = flag_at(json, "in_sync", false),
          .bytes_behind = figure_at(json, "bytes_behind").value_or(0)};
}

ChangeView change_of(const OrderedJson& json) {
  return {.time = figure_at(json, "time").value_or(0),
          .from = text_at(json, "from_name"),
          .to = text_at(json, "to_name"),
          .reason = text_at(json, "reason"),
          .silence = figure_at(json, "silence")};
}

}  // namespace

Result<DaemonView> daemon_view(std::string_view text) {
  const OrderedJson json = parsed(text);
  if (member(json, "role") == nullptr) return not_understood();
  DaemonView view{.name = text_at(json, "name"),
                  .place = text_at(json, "place"),
                  .version = text_at(json, "version"),
                  .leads = text_at(json, "role") == "leads",
                  .has_etcd = text_at(json, "judge") == "etcd",
                  .leader = text_at(json, "leader"),
                  .leader_address = text_at(json, "leader_place"),
                  .epoch = count_at<std::uint64_t>(json, "epoch"),
                  .now = figure_at(json, "time").value_or(0),
                  .since = figure_at(json, "since"),
                  .is_in_sync = flag_at(json, "in_sync", false),
                  .is_synced = flag_at(json, "synced", false),
                  .trouble = text_at(json, "trouble"),
                  .warnings = texts_at(json, "warnings")};
  if (member(json, "durable") != nullptr) view.is_durable = flag_at(json, "durable", false);
  const OrderedJson* const standbys = member(json, "standbys");
  if (standbys != nullptr && standbys->is_array()) {
    for (const auto& each : *standbys) view.standbys.push_back(standby_of(each));
  }
  if (const OrderedJson* const change = member(json, "last_change"))
    view.last_change = change_of(*change);
  return view;
}

// --- events --------------------------------------------------------------------------------------

namespace {

constexpr std::int64_t day_seconds = 86'400;
constexpr std::size_t name_width = 14;  // of an event's name; a longer one shifts the rest

// Members of every event, so not repeated after its name.
constexpr std::array<std::string_view, 6> in_all{"time", "event", "job", "host", "node", "round"};

const OrderedJson& at(const OrderedJson& json, const char* name) {
  static const OrderedJson none;
  if (!json.is_object()) return none;
  const auto found = json.find(name);
  return found == json.end() ? none : *found;
}

// A string verbatim, everything else as JSON.
std::string word(const OrderedJson& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "-" : value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string word_at(const OrderedJson& json, const char* name) {
  return word(at(json, name));
}

std::string ending_of(const OrderedJson& json) {
  const OrderedJson& signal = at(json, "signal");
  return signal.is_string() ? word(signal) : "exit code " + word_at(json, "exit_code");
}

std::string failure_line(const OrderedJson& failure) {
  auto text = fmt::format("rank {} on {}: {}", word_at(failure, "rank"), word_at(failure, "host"),
                          ending_of(failure));
  if (const auto cause = word_at(failure, "cause"); !cause.empty()) text += " (" + cause + ")";
  const auto message = word_at(failure, "message");
  if (!message.empty()) text += ": " + message.substr(0, message.find('\n'));
  return text;
}

std::string changed_node(const OrderedJson& json) {
  auto text = word_at(json, "changed_host");
  if (!at(json, "changed_node").is_null()) text += " (node " + word_at(json, "changed_node") + ")";
  const auto reason = at(json, "reason").is_null() ? std::string() : word_at(json, "reason");
  return reason.empty() ? text : text + ": " + reason;
}

// A cpprund reports names and a reason. A node reports only addresses.
std::string changed_leader(const OrderedJson& json) {
  const auto one_of = [&json](const char* name, const char* place) {
    return at(json, name).is_string() ? word_at(json, name) : word_at(json, place);
  };
  auto text = fmt::format("leadership moved to {} from {}, epoch {}", one_of("to_name", "to"),
                          one_of("from_name", "from"), word_at(json, "epoch"));
  if (at(json, "reason").is_string()) text += ": " + word_at(json, "reason");
  if (at(json, "silence").is_number())
    text += fmt::format("; no leader for {} s", word_at(json, "silence"));
  return text;
}

// For an unknown event: all of its members.
std::string all_members(const OrderedJson& json) {
  std::string text;
  for (const auto& [name, value] : json.items()) {
    if (std::ranges::find(in_all, name) != in_all.end()) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, word(value));
  }
  return text;
}

std::string words_of(const std::string& name, const OrderedJson& json) {
  const auto said = [&json](const char* member) { return word_at(json, member); };
  if (name == "job_started") {
    return fmt::format("{} workers here, {} to {} nodes", said("workers"), said("nodes_min"),
                       said("nodes_max"));
  }
  if (name == "round_sealed") {
    return fmt::format("{} nodes, {} workers, restart {}", said("nodes"), said("world_size"),
                       said("restart"));
  }
  if (name == "worker_started") return fmt::format("rank {}: pid {}", said("rank"), said("pid"));
  if (name == "worker_exited") {
    return fmt::format("rank {}: {} (pid {})", said("rank"), ending_of(json), said("pid"));
  }
  if (name == "worker_failed") return failure_line(at(json, "failure"));
  if (name.starts_with("node_")) return changed_node(json);
  // "keeper" before 0.1.0.
  if (name == "coordinator_note" || name == "keeper") return said("text");
  if (name == "leader_changed") return changed_leader(json);
  if (name == "order") return fmt::format("{} by {}: {}", said("order"), said("by"), said("said"));
  if (name == "waiting" || name == "draining") return said("reason");
  if (name == "job_ended") {
    return fmt::format("exit code {}: {}", said("exit_code"), said("reason"));
  }
  return all_members(json);
}

std::string time_of_day(double time, int utc_offset_seconds) {
  if (!(std::abs(time) < 1e12)) return "--:--:--";
  const auto whole = static_cast<std::int64_t>(std::floor(time)) + utc_offset_seconds;
  const auto second = (whole % day_seconds + day_seconds) % day_seconds;
  return fmt::format("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
}

Tint tint_of_event(const std::string& name) {
  if (name == "worker_failed" || name == "node_lost" || name == "worker_not_started") {
    return Tint::bad;
  }
  if (name == "leader_changed" || name == "draining" || name == "waiting" ||
      name == "worker_killed")
    return Tint::busy;
  return name == "round_sealed" || name == "job_ended" ? Tint::good : Tint::plain;
}

}  // namespace

std::optional<EventView> event_view(std::string_view line) {
  const OrderedJson json = parse_json<OrderedJson>(line);
  if (!at(json, "event").is_string()) return std::nullopt;
  EventView view{.job = word_at(json, "job"), .name = word_at(json, "event")};
  if (at(json, "time").is_number()) view.time = at(json, "time").get<double>();
  if (at(json, "exit_code").is_number_integer()) view.exit_code = at(json, "exit_code").get<int>();
  if (at(json, "reason").is_string()) view.reason = word_at(json, "reason");
  if (view.name == "leader_changed" && at(json, "to").is_string())
    view.leader = word_at(json, "to");
  return view;
}

std::string event_text(std::string_view line, const EventStyle& style) {
  const auto view = event_view(line);
  if (!view) return clipped(line, style.canvas.width);
  const OrderedJson json = parse_json<OrderedJson>(line);
  const auto job = style.names_job ? fmt::format("{} ", plain_line(view->job)) : std::string();
  const auto before =
      fmt::format("{} {}{}@{} ", time_of_day(view->time, style.utc_offset_seconds), job,
                  plain_line(word_at(json, "host")), plain_line(word_at(json, "round")));
  const auto name = plain_line(view->name);
  const auto behind =
      fmt::format("{}  {}", std::string(name_width - std::min(name_width, width_of(name)), ' '),
                  plain_line(words_of(view->name, json)));
  // The line is not clipped, because that would hide its end.
  return before + tinted(name, tint_of_event(view->name), style.canvas.has_colour) + behind;
}

}  // namespace cpprun
