// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprund: the rendezvous of many jobs, and a plain store for whoever wants one.

#include "proto/environment.h"
#include "rendezvous/daemon/daemon_options.h"

namespace cpprun {

// Serves until SIGTERM or SIGINT and answers the exit code: 0, or 1 where it cannot listen or its
// secrets cannot be taken, which a sentence on stderr explains. SIGHUP reads these again.
// Prints one line on stdout: `cpprund listening on [::]:29400`.
// `environment` says what a service manager has passed on and wants to be told; descriptors that
// were passed are open, and no others but the standard streams have been opened since the start.
int run_store_daemon(const DaemonOptions& options, const Environment& environment);

}  // namespace cpprun
