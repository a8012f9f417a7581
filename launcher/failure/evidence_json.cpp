// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/failure/bounds.h"
#include "launcher/failure/evidence.h"
#include "launcher/output/lines.h"
#include "proto/fields_json.h"
#include "proto/parse_json.h"
#include "proto/text.h"

namespace cpprun {

namespace {

using Json = nlohmann::json;

std::string text_of(const Json& object, const char* name) {
  const Json& found = member_or_null(object, name);
  return found.is_string() ? found.get<std::string>() : std::string();
}

// Larger than any real timestamp, and exact both as a double and as an integer.
constexpr double timestamp_seconds_max = 1e15;

// Seconds since 1970, which torchrun writes as a number or as a string of digits. Out-of-range
// numbers are ignored: converting them to an integer would be undefined.
std::optional<std::int64_t> seconds_of(const Json& object) {
  const Json& found = member_or_null(object, "timestamp");
  if (found.is_number()) {
    const auto seconds = found.get<double>();
    if (!(std::abs(seconds) < timestamp_seconds_max)) return std::nullopt;
    return static_cast<std::int64_t>(seconds);
  }
  if (!found.is_string()) return std::nullopt;
  return leading_number<std::int64_t>(found.get<std::string>());
}

}  // namespace

Result<WorkerError> parse_error_file(const std::string& text) {
  const auto json = parse_json(text, bounds::error_file_depth_max);
  if (json.is_discarded()) {
    if (json_depth(text) <= bounds::error_file_depth_max)
      return failure("the error file is not JSON");
    return failure(fmt::format("the error file is nested more than {} levels deep",
                               bounds::error_file_depth_max));
  }
  if (!json.is_object() || !json.contains("message")) {
    return failure("the error file has no \"message\"");
  }
  const auto& message = json.at("message");
  if (message.is_string()) {
    return WorkerError{.message = printable(message.get<std::string>()),
                       .traceback = "",
                       .unix_seconds = seconds_of(json)};
  }
  if (!message.is_object() || text_of(message, "message").empty()) {
    return failure("the error file's \"message\" is neither text nor an object with text");
  }
  WorkerError error{
      .message = printable(text_of(message, "message")), .traceback = "", .unix_seconds = {}};
  if (const auto extra = message.find("extraInfo"); extra != message.end() && extra->is_object()) {
    error.traceback = printable(text_of(*extra, "py_callstack"));
    error.unix_seconds = seconds_of(*extra);
  }
  return error;
}

Result<std::string> with_exit_code(const std::string& text, int exit_code) {
  auto json = parse_json(text, bounds::error_file_depth_max);
  if (json.is_discarded() || !json.is_object() || !json.contains("message")) {
    return failure("cannot copy the worker's error file: not a JSON object with \"message\"");
  }
  // The flat schema has no field for it. torchrun does not add it there either.
  if (json["message"].is_object()) json["message"]["errorCode"] = exit_code;
  return text_of_json(json);
}

}  // namespace cpprun
