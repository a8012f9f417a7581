// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// --hosts and --hostfile: one command for all hosts. What was said otherwise is put into words for
// the agents, whether it stood on the command line, in the environment or in a --config file.

#include <optional>

#include "launcher/cli/cli.h"
#include "launcher/cli/declaration.h"
#include "launcher/cli/flags.h"
#include "launcher/fanout/fan_out.h"

namespace cpprun {

// Nothing where no host is named. Flags that are the agents' alone are taken out of `flags`, which
// then are of the console. The program and the grace are not in it yet.
std::optional<fanout::Request> fan_out_request(Flags& flags, const Declaration& declaration,
                                               const CommandLine& line, Mistakes& mistakes);

}  // namespace cpprun
