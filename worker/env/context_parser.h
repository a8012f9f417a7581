// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads a Context from an environment that is handed in, so that every case can be tried as a
// value.

#include <string>

#include "proto/environment.h"
#include "proto/result.h"
#include "worker/env/context.h"

namespace cpprun {

// Every mistake is reported at once, each with the variable, its value and what would be right.
Result<Context> parse_context(const Environment& environment);

}  // namespace cpprun
