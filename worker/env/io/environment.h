// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "worker/env/context_parser.h"

namespace cpprun {

// This process's environment, as it is now.
Environment read_environment();

}  // namespace cpprun
