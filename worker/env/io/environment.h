// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>

#include "worker/env/context_parser.h"

namespace cpprun {

// The current environment of this process.
inline Environment read_environment() {
  return environment_of(environ);
}

}  // namespace cpprun
