// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Inspects a worker and its descendants once: which of them listen on a port, which were started by
// Python's multiprocessing, and how much CPU time they have used.

#include "launcher/agent/misconfiguration.h"

namespace cpprun::io {

WorldLook look_at_world(int pid);

}  // namespace cpprun::io
