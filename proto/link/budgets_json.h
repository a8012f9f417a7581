// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The purses of --max-restarts in a frame: {"hang": 1, "node": null}, where null is no limit.

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "proto/restart_rules.h"
#include "proto/result.h"

namespace cpprun::link {

nlohmann::json budgets_json(const std::vector<CauseBudget>& budgets);

// Throws nlohmann's own exception where this is no object; an error names a number that cannot be.
Result<std::vector<CauseBudget>> budgets_of(const nlohmann::json& object);

}  // namespace cpprun::link
