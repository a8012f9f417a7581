// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/http_routes.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "proto/bounds.h"
#include "proto/fields_json.h"
#include "proto/link/bounds.h"
#include "proto/parse_json.h"
#include "proto/signal_names.h"
#include "proto/text.h"
#include "rendezvous/job/operator_command.h"
#include "rendezvous/status/status_json.h"

namespace cpprun {

namespace {

using nlohmann::json;

Result<std::string> read_text(const std::string& key, const json& value, std::size_t bytes_max) {
  if (!value.is_string()) return failure(fmt::format("{} must be a string", key));
  auto text = value.get<std::string>();
  if (text.size() > bytes_max) {
    return failure(
        fmt::format("{} has {} bytes, and the maximum is {}", key, text.size(), bytes_max));
  }
  return plain_line(text);
}

Result<void> read_signal(const json& value, OperatorCommand& command) {
  const auto name = read_text("signal", value, bounds::name_shown_bytes_max);
  if (!name) return failure(name.error().reason);
  const auto number = signal_number(*name);
  if (!number) {
    return failure(fmt::format("unknown signal \"{}\"; use a name such as \"SIGUSR1\"", *name));
  }
  if (const auto objection = objection_to_signal(*number)) return failure(*objection);
  command.signal = *number;
  return {};
}

Result<void> read_node(const json& value, OperatorCommand& command) {
  if (value.is_number_unsigned()) {
    command.whom = std::to_string(value.get<std::uint64_t>());
    return {};
  }
  // JSON Schema counts 3.0 as an integer. From 2^53 on, a double cannot represent every integer.
  constexpr double exact_below = 9007199254740992.0;
  const double rank = value.is_number_float() ? value.get<double>() : -1;
  if (rank >= 0 && rank < exact_below && std::floor(rank) == rank) {
    command.whom = std::to_string(static_cast<std::uint64_t>(rank));
    return {};
  }
  auto name = read_text("node", value, bounds::host_bytes_max);
  if (!name) return failure(name.error().reason);
  command.whom = *std::move(name);
  return {};
}

Result<void> read_length(const json& value, OperatorCommand& command) {
  const double most = in_seconds(bounds::exclusion_max);
  const double seconds = value.is_number() ? value.get<double>() : 0;
  if (!(seconds > 0 && seconds <= most)) {
    return failure(
        fmt::format("for_s must be a number of seconds above 0 and up to {:.0f}; omit it to "
                    "exclude the host until the job is over",
                    most));
  }
  command.length = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  return {};
}

Result<void> read_member(const std::string& key, const json& value, OperatorCommand& command) {
  if (key == "reason") {
    auto reason = read_text(key, value, bounds::command_reason_bytes_max);
    if (!reason) return failure(reason.error().reason);
    command.reason = *std::move(reason);
    return {};
  }
  if (key == "signal" && command.kind == OperatorCommand::Kind::save)
    return read_signal(value, command);
  if (key == "native" && command.kind == OperatorCommand::Kind::capture) {
    if (!value.is_boolean()) return failure("native must be true or false");
    command.native = value.get<bool>();
    return {};
  }
  if (key == "node" && command.is_about_a_node()) return read_node(value, command);
  if (key == "for_s" && command.kind == OperatorCommand::Kind::exclude)
    return read_length(value, command);
  if (key == "job" && command.is_about_a_host()) {
    auto job = read_text(key, value, bounds::job_id_bytes_max);
    if (!job) return failure(job.error().reason);
    if (job->empty()) return failure("job must be the name of a job; omit it for all jobs");
    command.job = *std::move(job);
    return {};
  }
  return failure(fmt::format("{} takes no \"{}\"", name_of(command.kind),
                             plain_line(key, bounds::name_shown_bytes_max)));
}

}  // namespace

Result<void> read_command(const std::string& body, OperatorCommand& command) {
  if (command.kind == OperatorCommand::Kind::save) command.signal = *signal_number("SIGUSR1");
  const json object = body.empty() ? json::object() : parse_json(body);
  if (!object.is_object()) {
    return failure(R"(the body must be a JSON object, such as {"reason": "…"}, or empty)");
  }
  for (const auto& [key, value] : object.items()) {
    if (auto read = read_member(key, value, command); !read) return read;
  }
  if (command.is_about_a_node() && command.whom.empty()) {
    return failure(
        R"(no node given; use {"node": "3"} with the rank or the host name of the node)");
  }
  return {};
}

std::string outcome_json(const CommandResult& outcome) {
  if (!outcome.is_done()) return error_json(outcome.sentence);
  json object;
  object["said"] = outcome.sentence;
  if (!outcome.kept_by.empty()) object["kept_by"] = outcome.kept_by;
  return text_of_json(object) + "\n";
}

}  // namespace cpprun
