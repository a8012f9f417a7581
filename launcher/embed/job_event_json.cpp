// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/embed/job_event_json.h"

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "proto/parse_json.h"

namespace cpprun {

namespace {

using Json = nlohmann::json;

std::optional<std::int64_t> number(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

std::optional<std::string> text(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

// What events of a worker and failures have in common. The event's own exit code has precedence: a
// job and its failed worker may end with different ones.
void take_worker(const Json& object, JobEvent& event) {
  event.rank = number(object, "rank");
  event.local_rank = number(object, "local_rank");
  event.pid = number(object, "pid");
  if (!event.exit_code) {
    event.exit_code = number(object, "exit_code");
    event.signal = text(object, "signal");
  }
}

}  // namespace

std::optional<JobEvent> read_job_event(std::string_view line) {
  const Json object = parse_json(line);
  if (!object.is_object()) return std::nullopt;
  const auto name = text(object, "event");
  if (!name) return std::nullopt;
  JobEvent event{.name = *name, .json = std::string(line)};
  if (const auto time = object.find("time"); time != object.end() && time->is_number()) {
    event.time = time->get<double>();
  }
  event.job = text(object, "job").value_or("");
  event.host = text(object, "host").value_or("");
  event.node = number(object, "node");
  event.round = number(object, "round").value_or(0);
  take_worker(object, event);
  event.reason = text(object, "reason");
  for (const char* const part : {"failure", "root"}) {
    const auto failure = object.find(part);
    if (failure == object.end() || !failure->is_object()) continue;
    take_worker(*failure, event);
    event.cause = text(*failure, "cause");
    event.description = text(*failure, "reason");
    event.message = text(*failure, "message");
    event.hint = text(*failure, "advice");
    const auto consequence = failure->find("consequence");
    event.is_consequence = consequence != failure->end() && *consequence == true;
  }
  return event;
}

}  // namespace cpprun
