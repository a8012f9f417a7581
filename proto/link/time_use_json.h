// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the time of a job went into, as JSON: in frames, whole milliseconds and each account by its
// place in the enumeration, each cause a row; and for people and their scripts, seconds and names.

#include <nlohmann/json_fwd.hpp>

#include "proto/result.h"
#include "proto/time_use.h"

namespace cpprun::link {

nlohmann::json time_use_json(const TimeUse& use);
// The reason if it is no such value; what the library throws where a member is missing passes.
Result<TimeUse> time_use_of(const nlohmann::json& json);

// Documented in docs/events.md.
nlohmann::ordered_json readable_json(const TimeUse& use);

}  // namespace cpprun::link
