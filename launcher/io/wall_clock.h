// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "proto/clock.h"

namespace cpprun::io {

// For people to read; nothing is decided by it.
inline WallTime wall_now() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

}  // namespace cpprun::io
