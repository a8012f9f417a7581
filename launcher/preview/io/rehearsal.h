// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprun --dry-run: inspects this machine, or has the hosts inspect theirs, and prints what would
// be started. Opens no port, starts no worker and creates no file.

#include "launcher/agent/io/preparation.h"
#include "launcher/cli/cli.h"
#include "proto/environment.h"

namespace cpprun::io {

// Prints what this node would start and returns the exit code. Errors are the same as at a real
// start. `inputs` must have their secrets, and `config.store` must be resolved.
int rehearse(RunInputs inputs, bool as_json);

// Prints what all hosts would start; each is asked through its remote shell. `request` must have
// its working directory and secrets.
int rehearse_on_hosts(fanout::Request request, const RunInputs& inputs, bool as_json);

}  // namespace cpprun::io
