// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/restart_state_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "proto/plain_text.h"

namespace cpprun {

namespace {

using Json = nlohmann::json;
using Purses = std::map<std::string, RestartState::Moments, std::less<>>;

constexpr int version = 1;
constexpr const char* version_key = "cpprun_restart_state";
constexpr double seconds_max = 5e9;  // the year 2128; as nanoseconds it fits
constexpr std::uint64_t count_max = 1'000'000'000;

double wall_seconds(TimePoint moment, const ClockReading& clock) {
  const auto wall = std::chrono::duration<double>(clock.wall.time_since_epoch());
  return wall.count() - in_seconds(clock.now - moment);
}

Json to_json(const Purses& purses, const ClockReading& clock) {
  Json json = Json::object();
  for (const auto& [name, moments] : purses) {
    if (moments.empty()) continue;
    Json& times = json[name] = Json::array();
    // To the millisecond, which is as far as anybody reads.
    for (const TimePoint each : moments) {
      times.push_back(std::round(wall_seconds(each, clock) * 1e3) / 1e3);
    }
  }
  return json;
}

std::optional<Purses> purses_of(const Json& json, const ClockReading& clock) {
  if (!json.is_object()) return std::nullopt;
  const double wall_now = wall_seconds(clock.now, clock);
  Purses purses;
  for (const auto& [name, times] : json.items()) {
    if (!times.is_array()) return std::nullopt;
    auto& moments = purses[name];
    for (const Json& each : times) {
      const double seconds = each.is_number() ? each.get<double>() : -1;
      if (!(seconds >= 0 && seconds <= seconds_max)) return std::nullopt;
      const std::chrono::duration<double> ago{std::max(0.0, wall_now - seconds)};
      moments.push_back(clock.now - std::chrono::duration_cast<Duration>(ago));
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

// The key that is not as it should be; empty: all are.
std::string fill(RestartState& state, const Json& json, const ClockReading& clock) {
  const auto used = whole_at(json, "restarts_used", count_max);
  if (!used) return "restarts_used";
  state.restarts_used = static_cast<int>(*used);
  const auto fruitless = whole_at(json, "no_progress", count_max);
  if (!fruitless) return "no_progress";
  state.fruitless = static_cast<int>(*fruitless);
  auto spent = purses_of(at(json, "spent"), clock);
  if (!spent) return "spent";
  state.spent = *std::move(spent);
  auto failures = purses_of(at(json, "host_failures"), clock);
  if (!failures) return "host_failures";
  state.host_failures = *std::move(failures);
  const Json farthest = at(json, "farthest");
  const auto step = whole_at(farthest, "step", UINT64_MAX);
  const auto checkpoint = whole_at(farthest, "checkpoint_step", UINT64_MAX);
  if (!step || !checkpoint) return "farthest";
  state.farthest = {.step = *step, .checkpoint_step = *checkpoint};
  return {};
}

}  // namespace

std::string restart_state_json(const RestartState& state, const std::string& job,
                               const ClockReading& clock) {
  const Json json = {
      {version_key, version},
      {"job", job},
      {"restarts_used", state.restarts_used},
      {"spent", to_json(state.spent, clock)},
      {"farthest",
       {{"step", state.farthest.step}, {"checkpoint_step", state.farthest.checkpoint_step}}},
      {"no_progress", state.fruitless},
      {"host_failures", to_json(state.host_failures, clock)}};
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<RestartState> read_restart_state(std::string_view text, const std::string& job,
                                        const ClockReading& clock) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return not_ours("it is no JSON object");
  const auto said = whole_at(json, version_key, UINT64_MAX);
  if (!said) return not_ours(version_key);
  if (*said != version) {
    return failure(fmt::format(
        "is of version {}, and this cpprun reads version {}; use the cpprun that wrote it, or "
        "remove it and the job begins with its whole budget",
        *said, version));
  }
  const Json whose = at(json, "job");
  if (!whose.is_string()) return not_ours("job");
  if (whose != job) {
    return failure(fmt::format(
        "belongs to job \"{}\", and this is \"{}\"; give each job a file of its own, or name the "
        "job by --rdzv-id",
        plain_line(whose.get<std::string>()), job));
  }
  RestartState state;
  if (const auto key = fill(state, json, clock); !key.empty()) return not_ours(key);
  return state;
}

}  // namespace cpprun
