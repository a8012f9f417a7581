// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/daemon_json.h"

#include <chrono>
#include <nlohmann/json.hpp>

namespace cpprun {

namespace {

using Json = nlohmann::ordered_json;

double unix_seconds(WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// Without the noise of a double.
Json length_json(const std::optional<Duration>& length) {
  if (!length) return nullptr;
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(*length).count();
  return static_cast<double>(whole) / 1e6;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
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

std::string daemon_json(const DaemonSnapshot& daemon, const Moment& moment) {
  Json json;
  json["time"] = unix_seconds(moment.wall);
  json["name"] = daemon.name;
  json["place"] = daemon.place;
  json["version"] = daemon.version;
  json["role"] = daemon.leads ? "leads" : "stands_by";
  json["judge"] = daemon.has_etcd ? Json("etcd") : Json(nullptr);
  json["leader"] = text_or_null(daemon.leader);
  json["leader_place"] = text_or_null(daemon.leader_place);
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
  json["job"] = "";  // it is of all of them
  json["host"] = host;
  json["node"] = nullptr;
  json["round"] = 0;
  add_change(change, json);
  return text_of(json);
}

}  // namespace cpprun
