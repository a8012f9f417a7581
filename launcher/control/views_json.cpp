// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/views.h"
#include "launcher/plan/program.h"
#include "proto/fields_json.h"
#include "proto/parse_json.h"
#include "proto/result.h"
#include "proto/text.h"
#include "rendezvous/hang/evidence_json.h"
#include "rendezvous/status/page.h"

namespace cpprun {

namespace {

using OrderedJson = nlohmann::ordered_json;

template <class T>
concept Numeric = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

// A number outside the type's range counts as absent.
template <Numeric Number>
std::optional<Number> number_of(const OrderedJson& json) {
  const double figure = json.is_number() ? json.get<double>() : std::nan("");
  if constexpr (std::integral<Number>) {
    constexpr auto most = static_cast<double>(std::numeric_limits<Number>::max());
    constexpr auto least = static_cast<double>(std::numeric_limits<Number>::min());
    if (figure >= most || figure < least) return std::nullopt;
  }
  return std::isfinite(figure) ? std::optional(static_cast<Number>(figure)) : std::nullopt;
}

// Reads foreign JSON: what is missing or of another type keeps its default.
struct ViewFormat {
  void fields(auto& f, FailureView& failure) const {
    f("rank", failure.rank), f("node", failure.node), f("host", failure.host);
    f("pid", failure.pid), f("exit_code", failure.exit_code), f("signal", failure.signal);
    f("message", failure.message), f("cause", failure.cause);
  }
  void fields(auto& f, RoundView& round) const {
    f("round", round.round), f("restart", round.restart), f("began", round.began);
    f("ended", round.ended), f("reason", round.reason), f("failure", round.failure);
    f("consequence_count", round.consequence_count);
  }
  void fields(auto& f, MetricView& metric) const {
    f("name", metric.name), f("value", metric.value);
  }
  void fields(auto& f, ProgressView& progress) const {
    f("step_min", progress.step), f("total", progress.total);
    f("remaining", progress.remaining), f("metrics", progress.metrics);
  }
  void fields(auto& f, JobView& job) const {
    f("job", job.id), f("state", job.state), f("time", job.now), f("status_page", job.page);
    f("command", job.command), f("user", job.user), f("since", job.since);
    f("round", job.round), f("nodes_min", job.nodes_min), f("nodes_max", job.nodes_max);
    f("nodes", NodeCountsOf{job}), f("world_size", job.world_size);
    f("restarts", job.restarts), f("restarts_max", job.restarts_max);
    f("restarts_left", job.restarts_left), f("lease", job.lease);
    f("silence_max", job.silence_max), f("exit_code", job.exit_code), f("reason", job.reason);
    f("waits_for", job.waits_for), f("cover", job.cover), f("warnings", job.warnings);
    f("root", job.root), f("rounds", job.rounds), f("rounds_left_out", job.rounds_left_out);
    f("progress", job.progress);
  }
  // The numbers of nodes by state.
  struct NodeCountsOf {
    JobView& job;
  };
  void fields(auto& f, const NodeCountsOf& nodes) const {
    f("waiting", nodes.job.waiting), f("running", nodes.job.running);
    f("succeeded", nodes.job.succeeded), f("drained", nodes.job.drained);
    f("away", nodes.job.away);
  }
  void fields(auto& f, NodeView& node) const {
    f("host", node.host), f("node", node.node), f("state", node.state), f("since", node.since);
    f("silence", node.silence), f("connected", node.is_connected), f("leaving", node.is_leaving);
    f("hosts_coordinator", node.hosts_coordinator), f("pid", node.pid);
    f("workers", node.workers), f("base_rank", node.base_rank), f("role", node.role);
    f("upgrade", node.upgrade), f("ranks", node.figures);
  }
  void fields(auto& f, UpgradeView& upgrade) const {
    f("number", upgrade.number), f("version", upgrade.version), f("error", upgrade.error);
    f("took", upgrade.took);
  }
  void fields(auto& f, JobsView& view) const {
    double now = 0;
    std::string page;
    f("jobs", view.jobs), f("next", view.next), f("time", now), f("status_page", page);
    for (JobView& each : view.jobs) each.now = now, each.page = page;
  }
  void fields(auto& f, NodesView& view) const {
    f("time", view.now), f("nodes", view.nodes), f("next", view.next);
  }
  void fields(auto& f, StandbyView& standby) const {
    f("name", standby.name), f("place", standby.place), f("version", standby.version);
    f("in_sync", standby.is_in_sync), f("bytes_behind", standby.bytes_behind);
  }
  void fields(auto& f, ChangeView& change) const {
    f("time", change.time), f("from_name", change.from), f("to_name", change.to);
    f("reason", change.reason), f("silence", change.silence);
  }
  void fields(auto& f, CaptureView& capture) const {
    f("number", capture.number), f("round", capture.round), f("world_size", capture.world_size);
    f("verdict", capture.verdict), f("silent_nodes", capture.silent_nodes);
  }
  void fields(auto& f, DaemonView& view) const {
    std::string role;
    std::string judge;
    f("role", role), f("judge", judge);
    view.leads = role == "leads";
    view.has_etcd = judge == "etcd";
    f("name", view.name), f("place", view.place), f("version", view.version);
    f("leader", view.leader), f("leader_place", view.leader_address), f("epoch", view.epoch);
    f("time", view.now), f("since", view.since), f("in_sync", view.is_in_sync);
    f("standbys", view.standbys), f("durable", view.is_durable), f("synced", view.is_synced);
    f("trouble", view.trouble), f("last_change", view.last_change);
    f("warnings", view.warnings);
  }

  static const OrderedJson& member(const OrderedJson& json, const char* key) {
    return member_or_null(json, key);
  }
  static void read(const char*, const OrderedJson& json, std::string& text) {
    if (json.is_string()) text = json.get<std::string>();
  }
  static void read(const char*, const OrderedJson& json, bool& flag) {
    if (json.is_boolean()) flag = json.get<bool>();
  }
  template <Numeric Number>
  static void read(const char*, const OrderedJson& json, Number& number) {
    number = number_of<Number>(json).value_or(Number{});
  }
  template <Numeric Number>
  static void read(const char*, const OrderedJson& json, std::optional<Number>& number) {
    number = number_of<Number>(json);
  }
  static void read(const char*, const OrderedJson& json, std::optional<std::string>& text) {
    text = json.is_string() ? std::optional(json.get<std::string>()) : std::nullopt;
    if (text == "") text.reset();
  }
  static void read(const char*, const OrderedJson& json, std::vector<std::string>& texts) {
    if (!json.is_array()) return;
    for (const auto& each : json) {
      if (each.is_string()) texts.push_back(each.get<std::string>());
    }
  }
  template <class View>
  void read(const char* key, const OrderedJson& json, std::vector<View>& views) const {
    if (!json.is_array()) return;
    for (const auto& each : json) read_json(*this, key, each, views.emplace_back());
  }
  // The minimum or the sum of the statistics of a node's workers.
  static void read(const char*, const OrderedJson& ranks, StatsView& figures);
};

std::optional<double> figure_at(const OrderedJson& json, const char* name) {
  return number_of<double>(member_or_null(json, name));
}

void ViewFormat::read(const char*, const OrderedJson& ranks, StatsView& figures) {
  if (!ranks.is_array()) return;
  const auto take_least = [](std::optional<double>& least, std::optional<double> figure) {
    if (figure && (!least || *figure < *least)) least = figure;
  };
  const auto add = [](std::optional<double>& sum, std::optional<double> figure) {
    if (figure) sum = sum.value_or(0) + *figure;
  };
  std::set<std::optional<int>> gpus;
  for (const auto& rank : ranks) {
    take_least(figures.step, figure_at(rank, "step"));
    take_least(figures.steps_per_second, figure_at(rank, "steps_per_second"));
    add(figures.resident_bytes, figure_at(rank, "resident_bytes"));
    add(figures.cpu_percent, figure_at(rank, "cpu_percent"));
    const OrderedJson& gpu = member_or_null(rank, "gpu");
    if (gpu.is_null()) continue;
    take_least(figures.gpu_percent, figure_at(gpu, "percent"));
    // Several workers may share a GPU.
    if (gpus.insert(number_of<int>(member_or_null(gpu, "index"))).second) {
      add(figures.gpu_used_bytes, figure_at(gpu, "used_bytes"));
    }
  }
}

template <class Value>
Value value_at(const OrderedJson& json, const char* name) {
  Value value{};
  read_json(ViewFormat{}, name, member_or_null(json, name), value);
  return value;
}

std::string text_at(const OrderedJson& json, const char* name) {
  return value_at<std::string>(json, name);
}

OrderedJson parsed(std::string_view text) {
  return parse_json<OrderedJson>(text);
}

std::string line_text(const OrderedJson& json) {
  return text_of_json(json) + "\n";
}

// Only a reply that was asked for has the member `mark`.
template <class View>
Result<View> view_of(std::string_view text, const char* mark, bool is_list) {
  const OrderedJson json = parsed(text);
  const OrderedJson& marked = member_or_null(json, mark);
  if (marked.is_null() || (is_list && !marked.is_array())) {
    return failure("the response is not from a coordinator; check that this is a cpprun's port");
  }
  return value_of_json<View>(ViewFormat{}, json);
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
    const OrderedJson& jobs = member_or_null(seen, "jobs");
    if (!jobs.is_array()) continue;
    for (OrderedJson job : jobs) {
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
  return view_of<JobsView>(text, "jobs", /*is_list=*/true);
}

Result<JobView> job_view(std::string_view text) {
  return view_of<JobView>(text, "job", /*is_list=*/false);
}

Result<NodesView> nodes_view(std::string_view text) {
  return view_of<NodesView>(text, "nodes", /*is_list=*/true);
}

Result<CaptureView> capture_view(std::string_view text) {
  constexpr std::size_t entries_max = 100'000;  // of a job of ten thousand ranks
  const auto json = parsed(text);
  const auto& capture = member_or_null(json, "capture");
  if (capture.is_null()) return CaptureView{};
  auto view = view_of<CaptureView>(text_of_json(capture), "number", /*is_list=*/false);
  if (!view) return view;
  auto evidence = hang::parse_evidence(text_of_json(capture), entries_max);
  if (!evidence) return tl::unexpected(evidence.error());
  view->evidence = std::move(*evidence);
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
  if (options.native) json["native"] = true;
  const bool is_about_node =
      options.kind == CommandKind::drain || options.kind == CommandKind::upgrade_agent;
  if (is_about_node) json["node"] = options.subject;
  const bool is_about_host =
      options.kind == CommandKind::exclude || options.kind == CommandKind::include;
  if (is_about_host && !options.job.empty()) json["job"] = options.job;
  if (options.for_seconds) json["for_s"] = *options.for_seconds;
  return text_of_json(json);
}

std::string list_json(const std::vector<SeenAnswer>& answers) {
  return line_text(listed(answers));
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
  return line_text(json);
}

std::string status_json(std::string_view job, const std::vector<std::string>& node_pages,
                        std::string_view daemon) {
  OrderedJson json = parsed(job);
  if (!json.is_object()) json = OrderedJson::object();
  json["members"] = OrderedJson::array();
  for (const auto& page : node_pages) {
    const OrderedJson parts = parsed(page);
    const OrderedJson& nodes = member_or_null(parts, "nodes");
    if (!nodes.is_array()) continue;
    for (const auto& node : nodes) json["members"].push_back(node);
  }
  json["daemon"] = daemon.empty() ? OrderedJson(nullptr) : parsed(daemon);
  return line_text(json);
}

namespace {

void replace_once(std::string& text, std::string_view old, std::string_view with) {
  text.replace(text.find(old), old.size(), with);
}

}  // namespace

Result<std::string> report_page(std::string_view report) {
  OrderedJson json = parsed(report);
  const auto is_list = [&](const char* name) {
    const OrderedJson& found = member_or_null(json, name);
    const auto is_object = [](const OrderedJson& each) { return each.is_object(); };
    return found.is_array() && std::ranges::all_of(found, is_object);
  };
  const bool is_report = is_list("attempts") && is_list("others") && is_list("consequences") &&
                         !text_at(json, "job").empty() && !text_at(json, "state").empty();
  if (!is_report) return failure("not a report of cpprun --report");
  if (const auto version = value_at<int>(json, "version"); version != 1) {
    return failure(
        fmt::format("the report has version {}, but this cpprunctl reads version 1; use the "
                    "cpprunctl of the cpprun "
                    "that wrote it",
                    version));
  }
  json["command"] = public_command_text(value_at<std::vector<std::string>>(json, "program"));
  json.erase("program");
  // Nothing in it ends the element, or is read as markup.
  std::string data;
  for (const char each : line_text(json)) {
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
  return line_text({{"job", job}, {"exit_code", exit_code}, {"reason", reason}});
}

std::string said_json(const std::string& said) {
  return line_text({{"said", said}});
}

Result<DaemonView> daemon_view(std::string_view text) {
  return view_of<DaemonView>(text, "role", /*is_list=*/false);
}

// --- events --------------------------------------------------------------------------------------

namespace {

constexpr std::int64_t day_seconds = 86'400;
constexpr std::size_t name_width = 14;  // of an event's name; a longer one shifts the rest

// Members of every event, so not repeated after its name.
constexpr std::array<std::string_view, 6> in_all{"time", "event", "job", "host", "node", "round"};

// A string verbatim, everything else as JSON.
std::string word(const OrderedJson& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "-" : text_of_json(value);
}

std::string word_at(const OrderedJson& json, const char* name) {
  return word(member_or_null(json, name));
}

std::string ending_of(const OrderedJson& json) {
  const OrderedJson& signal = member_or_null(json, "signal");
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
  if (!member_or_null(json, "changed_node").is_null())
    text += " (node " + word_at(json, "changed_node") + ")";
  const auto reason =
      member_or_null(json, "reason").is_null() ? std::string() : word_at(json, "reason");
  return reason.empty() ? text : text + ": " + reason;
}

// A cpprund reports names and a reason. A node reports only addresses.
std::string changed_leader(const OrderedJson& json) {
  const auto one_of = [&json](const char* name, const char* place) {
    return member_or_null(json, name).is_string() ? word_at(json, name) : word_at(json, place);
  };
  auto text = fmt::format("leadership moved to {} from {}, epoch {}", one_of("to_name", "to"),
                          one_of("from_name", "from"), word_at(json, "epoch"));
  if (member_or_null(json, "reason").is_string()) text += ": " + word_at(json, "reason");
  if (member_or_null(json, "silence").is_number())
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
  if (name == "worker_failed") return failure_line(member_or_null(json, "failure"));
  if (name == "worker_restarting") {
    return fmt::format("rank {} alone: {}", said("rank"), said("reason"));
  }
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
  if (!member_or_null(json, "event").is_string()) return std::nullopt;
  EventView view{.job = word_at(json, "job"), .name = word_at(json, "event")};
  if (member_or_null(json, "time").is_number())
    view.time = member_or_null(json, "time").get<double>();
  if (member_or_null(json, "exit_code").is_number_integer())
    view.exit_code = member_or_null(json, "exit_code").get<int>();
  if (member_or_null(json, "reason").is_string()) view.reason = word_at(json, "reason");
  if (view.name == "leader_changed" && member_or_null(json, "to").is_string())
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
