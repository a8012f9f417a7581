// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What one process uses, as /proc tells: of itself, not of its children.

#include <cstdint>
#include <optional>

#include "proto/clock.h"

namespace cpprun::io {

struct ProcessUsage {
  std::int64_t resident_kib = 0;
  Duration cpu{};  // since it was started
};

// Nothing: it is gone, or may not be looked at.
std::optional<ProcessUsage> usage_of(int pid);

}  // namespace cpprun::io
