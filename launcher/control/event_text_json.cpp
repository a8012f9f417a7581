// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/event_text_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "proto/parse_json.h"
#include "proto/text.h"

namespace cpprun {

namespace {

using OrderedJson = nlohmann::ordered_json;

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
