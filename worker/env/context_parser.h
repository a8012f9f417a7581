// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Parses a Context from a given environment, so that tests can pass any environment.

#include <string>

#include "proto/environment.h"
#include "proto/result.h"
#include "worker/env/context.h"

namespace cpprun {

// Reports all errors at once, each with the variable, its value and what is valid.
Result<Context> parse_context(const Environment& environment);

}  // namespace cpprun
