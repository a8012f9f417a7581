// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the scheduler said, told to the flags of which nobody has said anything.

#include <string>
#include <vector>

#include "launcher/cli/cli.h"
#include "launcher/cli/declaration.h"
#include "launcher/cli/flags.h"
#include "launcher/scheduler/scheduler_facts.h"

namespace cpprun {

// After file, environment and words have been told, and before their values are settled. Returns
// what is worth a word at the start: what was taken from where.
std::vector<std::string> tell_scheduler(const SchedulerFacts& facts, const Flags& flags,
                                        const CommandLine& line, Declaration& declaration,
                                        Mistakes& mistakes);

}  // namespace cpprun
