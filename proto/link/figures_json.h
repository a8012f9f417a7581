// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The rows of a Status: a list of numbers for each worker, of which all but the first say by how
// much they differ from the row before, because the workers of a node are at about the same step.

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "proto/link/figures.h"
#include "proto/result.h"

namespace cpprun::link {

nlohmann::json rows_of(const std::vector<WorkerFigures>& workers);

// Throws nlohmann's own exception where these are no rows; an error names a number that cannot be.
Result<std::vector<WorkerFigures>> figures_in(const nlohmann::json& rows);

}  // namespace cpprun::link
