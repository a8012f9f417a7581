// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A failure as JSON, identical in the report and in the events. Only for the *_json.cpp files of
// this directory.

#include <nlohmann/json.hpp>

#include "launcher/failure/diagnosis.h"

namespace cpprun {

// Seconds since 1970 with a fraction.
double unix_seconds(WallTime time);

// The members that every failure has: rank, local_rank, node, host, pid, exit_code, signal, time,
// message, cause, reason, advice, consequence.
nlohmann::ordered_json to_json(const link::Failure& failure, const std::string& executable);

// A message for a member of JSON: "fact\n  hint: what to do" becomes "fact; what to do".
std::string on_one_line(std::string message);

// Serializes `json`. Invalid UTF-8 is replaced, since worker output may contain it.
std::string to_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace cpprun
