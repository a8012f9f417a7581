// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One look at a worker and all that it has started: who serves on a port, who is a process of
// Python's multiprocessing, and how much they have computed.

#include "launcher/agent/own_world.h"

namespace cpprun::io {

WorldLook look_at_world(int pid);

}  // namespace cpprun::io
