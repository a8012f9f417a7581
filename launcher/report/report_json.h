// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A failure as JSON: the one form it has in the report and in the events. Only for the *_json.cpp
// files of this room.

#include <nlohmann/json.hpp>

#include "launcher/failure/diagnosis.h"

namespace cpprun {

// Microseconds since 1970 as seconds with a fraction, which every tool reads.
double unix_seconds(WallTime time);

// What every failure has: rank, local_rank, node, host, pid, exit_code, signal, time, message,
// cause, reason, advice, consequence.
nlohmann::ordered_json to_json(const link::Failure& failure, const std::string& executable);

// Text with whatever is no UTF-8 in it replaced: workers say anything.
std::string to_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace cpprun
