// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// --hosts and --hostfile: one command starts all hosts. Other settings are turned into flags for
// the agents, whether they came from the command line, the environment or a --config file.

#include <optional>

#include "launcher/cli/cli.h"
#include "launcher/cli/declaration.h"
#include "launcher/cli/flags.h"
#include "launcher/fanout/fan_out.h"

namespace cpprun {

// nullopt if no hosts are given. Removes from `flags` those meant only for the agents; the rest
// applies to the console. The caller adds the program and the grace period.
std::optional<fanout::Request> fan_out_request(Flags& flags, const Declaration& declaration,
                                               const CommandLine& line, Diagnostics& diagnostics);

}  // namespace cpprun
