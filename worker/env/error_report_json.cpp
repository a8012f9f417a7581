// SPDX-License-Identifier: BSD-3-Clause
#include <nlohmann/json.hpp>

#include "proto/bounds.h"
#include "worker/env/error_report.h"

namespace cpprun {
namespace {

std::string cut(const std::string& text) {
  if (text.size() <= bounds::worker_error_bytes_max) return text;
  return text.substr(0, bounds::worker_error_bytes_max) + " … (cut)";
}

}  // namespace

std::string to_json(const ErrorReport& report) {
  // The schema calls a call stack py_callstack, in any language.
  const nlohmann::json file = {{"message",
                                {{"message", cut(report.message)},
                                 {"extraInfo",
                                  {{"py_callstack", cut(report.callstack)},
                                   {"timestamp", std::to_string(report.unix_seconds)}}}}}};
  return file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cpprun
