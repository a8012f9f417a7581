#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "launcher/error_file.h"

namespace cpprun {

namespace {

using Json = nlohmann::json;

Json read(const std::string& text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Seconds since 1970, which upstream writes as a number or as its digits.
std::optional<std::int64_t> seconds_of(const Json& object) {
  const auto found = object.find("timestamp");
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<std::int64_t>();
  if (!found->is_string()) return std::nullopt;
  const auto digits = found->get<std::string>();
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
  if (error != std::errc{} || end == digits.data()) return std::nullopt;
  return seconds;
}

}  // namespace

Result<WorkerError> parse_error_file(const std::string& text) {
  const auto json = read(text);
  if (json.is_discarded()) return failure("its error file is not JSON");
  if (!json.is_object() || !json.contains("message")) {
    return failure("its error file has no \"message\"");
  }
  const auto& message = json.at("message");
  if (message.is_string()) {
    return WorkerError{
        .message = message.get<std::string>(), .traceback = "", .unix_seconds = seconds_of(json)};
  }
  if (!message.is_object() || text_of(message, "message").empty()) {
    return failure("its error file has a \"message\" that is neither text nor holds one");
  }
  WorkerError error{.message = text_of(message, "message"), .traceback = "", .unix_seconds = {}};
  if (const auto extra = message.find("extraInfo"); extra != message.end() && extra->is_object()) {
    error.traceback = text_of(*extra, "py_callstack");
    error.unix_seconds = seconds_of(*extra);
  }
  return error;
}

Result<std::string> with_exit_code(const std::string& text, int exit_code) {
  auto json = read(text);
  if (json.is_discarded() || !json.is_object() || !json.contains("message")) {
    return failure("its error file is not one that can be passed on");
  }
  // The flat schema has no place for it, in torchrun neither.
  if (json["message"].is_object()) json["message"]["errorCode"] = exit_code;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cpprun
