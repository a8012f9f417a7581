// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Looks once at a worker and everything it has started: who listens on a port, who is a process of
// Python's multiprocessing, and how much CPU time they have used.

#include "launcher/agent/misconfiguration.h"

namespace cpprun::io {

WorldLook look_at_world(int pid);

}  // namespace cpprun::io
