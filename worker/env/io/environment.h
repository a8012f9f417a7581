#pragma once

#include "worker/env/context.h"

namespace cpprun {

// This process's environment, as it is now.
Environment read_environment();

}  // namespace cpprun
