// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The last step before a daemon serves: its socket for tools, and before that the sandbox, in which
// only the folder of that socket stays open.

#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/daemon/io/daemon_log.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun {

// Everything that needs a file of somebody else's has to be open by then.
void close_up(CoordinatorServer& server, SideProcesses& side, const DaemonOptions& options,
              DaemonLog& log);

}  // namespace cpprun
