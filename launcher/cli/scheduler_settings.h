// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Uses the scheduler's facts as defaults for flags that the user did not set.

#include <string>
#include <vector>

#include "launcher/cli/cli.h"
#include "launcher/cli/declaration.h"
#include "launcher/cli/flags.h"
#include "launcher/scheduler/scheduler_facts.h"

namespace cpprun {

// Call after the file, the environment and the arguments are read, and before the values are
// parsed. Returns notes to print at the start: what was taken from where.
std::vector<std::string> tell_scheduler(const SchedulerFacts& facts, const Flags& flags,
                                        const CommandLine& line, Declaration& declaration,
                                        Diagnostics& diagnostics);

}  // namespace cpprun
