// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/daemon_view_json.h"

#include "launcher/control/view_members_json.h"

namespace cpprun {

namespace {

using namespace view_json;

StandbyView standby_of(const Json& json) {
  return {.name = text_at(json, "name"),
          .place = text_at(json, "place"),
          .version = text_at(json, "version"),
          .is_in_sync = flag_at(json, "in_sync", false),
          .bytes_behind = figure_at(json, "bytes_behind").value_or(0)};
}

ChangeView change_of(const Json& json) {
  return {.time = figure_at(json, "time").value_or(0),
          .from = text_at(json, "from_name"),
          .to = text_at(json, "to_name"),
          .reason = text_at(json, "reason"),
          .silence = figure_at(json, "silence")};
}

}  // namespace

Result<DaemonView> daemon_view(std::string_view text) {
  const Json json = parsed(text);
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
  const Json* const standbys = member(json, "standbys");
  if (standbys != nullptr && standbys->is_array()) {
    for (const auto& each : *standbys) view.standbys.push_back(standby_of(each));
  }
  if (const Json* const change = member(json, "last_change")) view.last_change = change_of(*change);
  return view;
}

}  // namespace cpprun
