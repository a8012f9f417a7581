// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// JSON of values inside messages: restart budgets, rows of figures, and time use.

#include <nlohmann/json_fwd.hpp>

#include <vector>

#include "proto/link/figures.h"
#include "proto/restart_rules.h"
#include "proto/result.h"
#include "proto/time_use.h"

namespace cpprun::link {

// The purses of --max-restarts in a frame: {"hang": 1, "node": null}, where null is no limit.

nlohmann::json budgets_json(const std::vector<CauseBudget>& budgets);

// Throws nlohmann's own exception where this is no object; an error names a number that cannot be.
Result<std::vector<CauseBudget>> budgets_of(const nlohmann::json& object);

// The rows of a Status: a list of numbers for each worker, of which all but the first say by how
// much they differ from the row before, because the workers of a node are at about the same step.

nlohmann::json rows_of(const std::vector<WorkerFigures>& workers);

// Throws nlohmann's own exception where these are no rows; an error names a number that cannot be.
Result<std::vector<WorkerFigures>> figures_in(const nlohmann::json& rows);

// What the time of a job went into, as JSON: in frames, whole milliseconds and each account by its
// place in the enumeration, each cause a row; and for people and their scripts, seconds and names.

nlohmann::json time_use_json(const TimeUse& use);
// The reason if it is no such value; what the library throws where a member is missing passes.
Result<TimeUse> time_use_of(const nlohmann::json& json);

// Documented in docs/events.md.
nlohmann::ordered_json readable_json(const TimeUse& use);

}  // namespace cpprun::link
