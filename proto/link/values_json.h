// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// JSON of values inside messages: restart budgets, worker figures, and time use.

#include <nlohmann/json_fwd.hpp>

#include <vector>

#include "proto/link/message.h"
#include "proto/restart_rules.h"
#include "proto/result.h"
#include "proto/time_use.h"

namespace cpprun::link {

// The budgets of --max-restarts in a frame: {"hang": 1, "node": null}, where null is unlimited.

nlohmann::json budgets_json(const std::vector<CauseBudget>& budgets);

// Throws nlohmann's exception if it is not an object; the error names an invalid number.
Result<std::vector<CauseBudget>> budgets_of(const nlohmann::json& object);

// The rows of a Status: a list of numbers per worker. All rows but the first contain differences
// from the previous row, since the workers of a node are at about the same step. Four elements may
// follow: the total, the metrics, the last line, and the GPU as [index, percent, used MiB, total
// MiB]. Unknown elements at the end are omitted; before others, they are -1, {} and "".

nlohmann::json rows_of(const std::vector<WorkerStats>& workers);

// Throws nlohmann's exception if these are not rows; the error names an invalid number.
Result<std::vector<WorkerStats>> figures_in(const nlohmann::json& rows);

// Time use as JSON. In frames: whole milliseconds, accounts by their index in the enumeration, a
// row per cause. For users and scripts (readable_json): seconds and names.

nlohmann::json time_use_json(const TimeUse& use);
// Fails with a reason if it is invalid; throws the library's exception if a member is missing.
Result<TimeUse> time_use_of(const nlohmann::json& json);

// Documented in docs/events.md.
nlohmann::ordered_json readable_json(const TimeUse& use);

}  // namespace cpprun::link
