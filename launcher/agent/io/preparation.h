// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// From a configuration to everything a run needs: facts are gathered from the machine, `plan`
// decides what they come to, and this keeps the answers. The steps of `main`, in order.

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/io/refusal.h"
#include "launcher/agent/io/run_inputs.h"
#include "launcher/cli/cli.h"

namespace cpprun::io {

// What the command line is read from; `words` without the program's own name. The environment is
// there for as long as it is.
CommandLine command_line(std::vector<std::string> words, const Environment& environment);

// A run with this configuration, of which nothing is known yet but who we are.
RunInputs begin_inputs(Config config, Environment own);

// The files of --report and --events. The report says that the job runs, so that nobody takes an
// earlier one for its own. A file that cannot be written is a mistake like one in a flag.
std::optional<CliMistakes> open_output_files(RunInputs& inputs);

// The program, the processors and the network.
std::optional<Refusal> look_around(RunInputs& inputs);

// Descriptors for many workers, and a priority with which leases can be kept; the workers are given
// back what cpprun itself was started with.
void raise_own_limits(RunInputs& inputs);

}  // namespace cpprun::io
