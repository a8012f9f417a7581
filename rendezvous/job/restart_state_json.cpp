// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/restart_state_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "proto/parse_json.h"
#include "proto/text.h"

namespace cpprun {

namespace {

using Json = nlohmann::json;
using Purses = std::map<std::string, RestartState::Moments, std::less<>>;

constexpr int state_version = 1;
constexpr const char* state_version_key = "cpprun_restart_state";
constexpr double seconds_max = 5e9;  // the year 2128; as nanoseconds it fits
constexpr std::uint64_t count_max = 1'000'000'000;

double wall_seconds(TimePoint at, const Moment& moment) {
  const auto wall = std::chrono::duration<double>(moment.wall.time_since_epoch());
  return wall.count() - in_seconds(moment.now - at);
}

Json to_json(const Purses& purses, const Moment& moment) {
  Json json = Json::object();
  for (const auto& [name, moments] : purses) {
    if (moments.empty()) continue;
    Json& times = json[name] = Json::array();
    // To the millisecond, which is as far as anybody reads.
    for (const TimePoint each : moments) {
      times.push_back(std::round(wall_seconds(each, moment) * 1e3) / 1e3);
    }
  }
  return json;
}

std::optional<Purses> purses_of(const Json& json, const Moment& moment) {
  if (!json.is_object()) return std::nullopt;
  const double wall_now = wall_seconds(moment.now, moment);
  Purses purses;
  for (const auto& [name, times] : json.items()) {
    if (!times.is_array()) return std::nullopt;
    auto& moments = purses[name];
    for (const Json& each : times) {
      const double seconds = each.is_number() ? each.get<double>() : -1;
      if (!(seconds >= 0 && seconds <= seconds_max)) return std::nullopt;
      const std::chrono::duration<double> ago{std::max(0.0, wall_now - seconds)};
      moments.push_back(moment.now - std::chrono::duration_cast<Duration>(ago));
    }
    std::ranges::sort(moments);
  }
  return purses;
}

std::optional<std::uint64_t> whole_at(const Json& json, const char* name, std::uint64_t most) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto value = found->get<std::uint64_t>();
  return value <= most ? std::optional(value) : std::nullopt;
}

Json at(const Json& json, const char* name) {
  return json.is_object() ? json.value(name, Json()) : Json();
}

tl::unexpected<Error> not_ours(const std::string& key) {
  return failure(
      fmt::format("is no state of restarts as cpprun writes it ({}); remove it, and the "
                  "job begins with its whole budget",
                  key));
}

}  // namespace

Json restart_state_value(const RestartState& state, const Moment& moment) {
  return {{"restarts_used", state.restarts_used},
          {"spent", to_json(state.spent, moment)},
          {"farthest",
           {{"step", state.farthest.step}, {"checkpoint_step", state.farthest.checkpoint_step}}},
          {"no_progress", state.fruitless},
          {"host_failures", to_json(state.host_failures, moment)}};
}

Result<RestartState> restart_state_of(const Json& json, const Moment& moment) {
  RestartState state;
  const auto used = whole_at(json, "restarts_used", count_max);
  if (!used) return failure("restarts_used");
  state.restarts_used = static_cast<int>(*used);
  const auto fruitless = whole_at(json, "no_progress", count_max);
  if (!fruitless) return failure("no_progress");
  state.fruitless = static_cast<int>(*fruitless);
  auto spent = purses_of(at(json, "spent"), moment);
  if (!spent) return failure("spent");
  state.spent = *std::move(spent);
  auto failures = purses_of(at(json, "host_failures"), moment);
  if (!failures) return failure("host_failures");
  state.host_failures = *std::move(failures);
  const Json farthest = at(json, "farthest");
  const auto step = whole_at(farthest, "step", UINT64_MAX);
  const auto checkpoint = whole_at(farthest, "checkpoint_step", UINT64_MAX);
  if (!step || !checkpoint) return failure("farthest");
  state.farthest = {.step = *step, .checkpoint_step = *checkpoint};
  return state;
}

std::string restart_state_json(const RestartState& state, const std::string& job,
                               const Moment& moment) {
  Json json = restart_state_value(state, moment);
  json[state_version_key] = state_version;
  json["job"] = job;
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<RestartState> read_restart_state(std::string_view text, const std::string& job,
                                        const Moment& moment) {
  const Json json = parse_json(text);
  if (!json.is_object()) return not_ours("it is no JSON object");
  const auto said = whole_at(json, state_version_key, UINT64_MAX);
  if (!said) return not_ours(state_version_key);
  if (*said != state_version) {
    return failure(fmt::format(
        "is of version {}, and this cpprun reads version {}; use the cpprun that wrote it, or "
        "remove it and the job begins with its whole budget",
        *said, state_version));
  }
  const Json whose = at(json, "job");
  if (!whose.is_string()) return not_ours("job");
  if (whose != job) {
    return failure(fmt::format(
        "belongs to job \"{}\", and this is \"{}\"; give each job a file of its own, or name the "
        "job by --rdzv-id",
        plain_line(whose.get<std::string>()), job));
  }
  auto state = restart_state_of(json, moment);
  if (!state) return not_ours(state.error().reason);
  return state;
}

}  // namespace cpprun
