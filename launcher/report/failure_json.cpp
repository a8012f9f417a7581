// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/failure_json.h"

namespace cpprun {

double unix_seconds(WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

nlohmann::ordered_json to_json(const link::Failure& failure, const std::string& executable) {
  const auto status = own_status(failure);
  const auto* cause = find_cause(failure.cause);
  nlohmann::ordered_json json;
  json["rank"] = failure.rank.value;
  json["local_rank"] = failure.local_rank.value;
  json["node"] = failure.group_rank.value;
  json["host"] = failure.host;
  json["pid"] = failure.pid;
  json["exit_code"] = link::exit_code_of(status);
  json["signal"] = status.signalled ? nlohmann::ordered_json(signal_name(status.value)) : nullptr;
  json["time"] = unix_seconds(failure.time);
  json["message"] = failure.message;
  json["cause"] = failure.cause;
  json["reason"] = cause == nullptr ? "" : std::string(cause->sentence);
  json["advice"] = cause == nullptr ? "" : cause_advice(*cause, executable);
  json["consequence"] = failure.consequence;
  return json;
}

std::string to_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cpprun
