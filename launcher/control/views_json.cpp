// SPDX-License-Identifier: BSD-3-Clause
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/views.h"
#include "proto/parse_json.h"
#include "proto/result.h"
#include "proto/text.h"

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

JobView job_of(const OrderedJson& json) {
  JobView job{.id = text_at(json, "job"),
              .state = text_at(json, "state"),
              .now = figure_at(json, "time").value_or(0),
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
  for (const auto& rank : *ranks) {
    take_least(figures.step, figure_at(rank, "step"));
    take_least(figures.steps_per_second, figure_at(rank, "steps_per_second"));
    add(figures.resident_bytes, figure_at(rank, "resident_bytes"));
    add(figures.cpu_percent, figure_at(rank, "cpu_percent"));
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

std::string order_json(const Wish& wish) {
  OrderedJson json = OrderedJson::object();
  if (!wish.reason.empty()) json["reason"] = wish.reason;
  if (!wish.signal.empty()) json["signal"] = wish.signal;
  if (wish.verb == Verb::drain) json["node"] = wish.subject;
  const bool is_about_host = wish.verb == Verb::exclude || wish.verb == Verb::include;
  if (is_about_host && !wish.job.empty()) json["job"] = wish.job;
  if (wish.for_seconds) json["for_s"] = *wish.for_seconds;
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
                  .leader_place = text_at(json, "leader_place"),
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

}  // namespace cpprun
