// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprun --dry-run: looks at this machine, or has the hosts look at theirs, and prints what would
// be started. No port is opened, no worker is started, and no file is made.

#include "launcher/agent/io/preparation.h"
#include "launcher/cli/cli.h"
#include "proto/environment.h"

namespace cpprun::io {

// What this node would start; gives the exit code. A refusal is what the start's would be.
// `inputs` have their secrets, and their store settled.
int rehearse(RunInputs inputs, bool as_json);

// What all hosts would: each is asked through its remote shell. `request` has its folder and the
// secrets.
int rehearse_on_hosts(fanout::Request request, const RunInputs& inputs, bool as_json);

}  // namespace cpprun::io
