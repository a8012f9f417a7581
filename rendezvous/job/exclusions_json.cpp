// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/exclusions_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "proto/parse_json.h"
#include "rendezvous/job/order.h"

namespace cpprun {

namespace {

using Json = nlohmann::json;

constexpr const char* version_key = "cpprund_hosts";
constexpr int version = 1;
// The year 2128; as nanoseconds it fits.
constexpr std::int64_t exclusion_wall_max = 5'000'000'000'000'000;

Json record_in(std::string_view bytes) {
  return parse_cbor(bytes);
}

}  // namespace

Json exclusions_value(const std::vector<Exclusions::Entry>& entries, const Moment& moment) {
  Json json = Json::array();
  for (const auto& [host, until, why] : entries) {
    const Json end = until ? Json(moment.by_wall(*until).time_since_epoch().count()) : Json();
    json.push_back({{"host", host}, {"until", end}, {"why", why}});
  }
  return json;
}

Result<std::vector<Exclusions::Entry>> exclusions_of(const Json& json, const Moment& moment) {
  if (!json.is_array() || json.size() > bounds::exclusions_max) return failure("exclusions");
  std::vector<Exclusions::Entry> entries;
  try {
    for (const Json& each : json) {
      Exclusions::Entry entry{.host = each.at("host").get<std::string>(),
                              .why = each.at("why").get<std::string>()};
      if (const Json& until = each.at("until"); !until.is_null()) {
        if (!until.is_number_integer()) return failure("a moment");
        const auto wall = until.get<std::int64_t>();
        if (wall < -exclusion_wall_max || wall > exclusion_wall_max) return failure("a moment");
        // No clock that was wrong excludes a host for longer than somebody may have asked for.
        const Duration ahead = std::chrono::microseconds{wall} - moment.wall.time_since_epoch();
        entry.until = moment.now + std::min<Duration>(ahead, bounds::exclusion_max);
      }
      entries.push_back(std::move(entry));
    }
  } catch (const Json::exception& error) {
    return failure(error.what());
  }
  std::ranges::sort(entries, {}, &Exclusions::Entry::host);
  return entries;
}

std::string hosts_record_bytes(const std::vector<Exclusions::Entry>& entries,
                               const Moment& moment) {
  std::string bytes;
  Json::to_cbor({{version_key, version}, {"exclusions", exclusions_value(entries, moment)}}, bytes);
  return bytes;
}

bool is_hosts_record(std::string_view bytes) {
  const Json json = record_in(bytes);
  return json.is_object() && json.contains(version_key);
}

Result<std::vector<Exclusions::Entry>> read_hosts_record(std::string_view bytes,
                                                         const Moment& moment) {
  const auto no_record = [](const std::string& what) {
    return failure(fmt::format("is none of excluded hosts as cpprund writes it ({})", what));
  };
  const Json json = record_in(bytes);
  const Json said = json.is_object() ? json.value(version_key, Json()) : Json();
  if (!said.is_number_unsigned()) return no_record(version_key);
  if (said != version) {
    return failure(
        fmt::format("is of version {}, and this cpprund reads version {}", said.dump(), version));
  }
  auto entries = exclusions_of(json.value("exclusions", Json()), moment);
  if (!entries) return no_record(entries.error().reason);
  // Only a job's own end with it.
  if (std::ranges::any_of(*entries, [](const auto& each) { return !each.until; })) {
    return no_record("one has no end");
  }
  return entries;
}

}  // namespace cpprun
