// SPDX-License-Identifier: BSD-3-Clause
// The part of policy_replay.h that scripts read.

#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/control/policy_replay.h"

namespace cpprun {

std::string replay_json(const PolicyReplay& replay) {
  using Json = nlohmann::ordered_json;
  Json steps = Json::array();
  for (const PolicyStep& step : replay.steps) {
    const RestartPolicy::End& end = step.failure.end;
    const auto* const verdict = step.verdict ? &*step.verdict : nullptr;
    const bool leaves_out = verdict != nullptr && verdict->failing_host;
    steps.push_back({{"at", in_seconds(step.failure.at.time_since_epoch())},
                     {"host", end.root.host},
                     {"rank", end.root.rank.value},
                     {"cause", end.root.cause},
                     {"reached", verdict != nullptr},
                     {"restart", verdict != nullptr && verdict->restart},
                     {"counts", verdict != nullptr && verdict->counts},
                     {"pause", verdict ? in_seconds(verdict->pause) : 0.0},
                     {"reason", verdict ? verdict->reason : ""},
                     {"leaves_out", leaves_out ? Json(*verdict->failing_host) : Json()}});
  }
  const Json json{{"policy", to_text(replay.rules)},
                  {"ended", replay.end() != nullptr},
                  {"restarts_used", replay.restarts_used},
                  {"restarts_left", replay.restarts_left},
                  {"failures", std::move(steps)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cpprun
