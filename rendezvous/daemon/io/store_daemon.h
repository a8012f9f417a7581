// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprund: the rendezvous of many jobs, and a plain store for whoever wants one.

#include "rendezvous/daemon/daemon_options.h"

namespace cpprun {

// Serves until SIGTERM or SIGINT and answers the exit code: 0, or 1 where it cannot listen or its
// secrets cannot be taken, which a sentence on stderr explains. SIGHUP reads these again.
// Prints one line on stdout: `cpprund listening on [::]:29400`.
int run_store_daemon(const DaemonOptions& options);

}  // namespace cpprun
