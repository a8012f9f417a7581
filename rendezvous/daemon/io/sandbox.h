// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Gives up, for this process and all that it starts from here on, what it does not need. There is
// no way back. Where the kernel refuses a part of it, the rest is in force.

#include "rendezvous/daemon/sandbox.h"

namespace cpprun {

// For a process with one thread: Landlock's rules are a thread's.
SandboxInForce enter_sandbox(const SandboxWants& wants);

}  // namespace cpprun
