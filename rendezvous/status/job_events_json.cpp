// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/job_events_json.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "proto/signal_names.h"
#include "rendezvous/status/snapshot_json.h"

namespace cpprun {

namespace {

using Json = nlohmann::ordered_json;

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

// What an event has beside what all have; nothing: it is none.
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
  const auto& [ticket, order, outcome] = answered;
  Json json{{"event", "order"},
            {"order", name_of(order.kind)},
            {"by", order.by},
            {"reason", order.reason}};
  json["whom"] = order.whom.empty() ? Json(nullptr) : Json(order.whom);
  const bool is_save = order.kind == Order::Kind::save;
  json["signal"] = is_save ? Json(signal_name(order.signal)) : Json(nullptr);
  json["for_s"] = order.length > Duration{} ? Json(in_seconds(order.length)) : Json(nullptr);
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
    members = Json{{"event", "keeper"}, {"text", note->line}};
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
  json["event"] = "";  // its place is near the beginning
  json["job"] = job;
  json["host"] = host_;
  json["node"] = nullptr;
  json["round"] = told == told_.end() ? 0 : told->second.sealed.value;
  json.update(*members);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cpprun
