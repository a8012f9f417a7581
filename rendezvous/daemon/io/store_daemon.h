// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprund: the rendezvous of many jobs, and a plain store for other clients.

#include "proto/environment.h"
#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/store/memory_accounting.h"

namespace cpprun {

// What clients may make a daemon hold: as its options say, or a share of this machine's memory.
MemoryLimits memory_of(const DaemonOptions& options);

// Serves until SIGTERM or SIGINT. Returns the exit code: 0, or 1 if the port cannot be opened or
// the secrets cannot be read, with an explanation on stderr. SIGHUP reloads the secrets. Prints one
// line on stdout: `cpprund listening on [::]:29400`. `environment` has the variables of a service
// manager. Passed descriptors must be open, and except for the standard streams nothing else may
// have been opened before.
int run_store_daemon(const DaemonOptions& options, const Environment& environment);

}  // namespace cpprun
