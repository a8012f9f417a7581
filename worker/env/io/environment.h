// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "worker/env/context_parser.h"

namespace cpprun {

// The current environment of this process.
Environment read_environment();

}  // namespace cpprun
