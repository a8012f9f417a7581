// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/environment.h"

#include <unistd.h>

namespace cpprun {

Environment read_environment() {
  return environment_of(environ);
}

}  // namespace cpprun
