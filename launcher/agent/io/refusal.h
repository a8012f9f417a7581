// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A job that never comes to its start: it is told on the console and in the file of --report, so
// that nobody takes an earlier run's report for this one's.

#include <string>

#include "launcher/agent/io/run_inputs.h"
#include "launcher/cli/cli.h"
#include "launcher/report/report.h"

namespace cpprun::io {

struct Refusal {
  std::string reason;
  int code = 1;  // cpprun's exit code
};

// Tells why, and gives the exit code.
int refuse(const RunInputs& inputs, const Refusal& refusal);
// The same where not even the flags are in order, or a file that they name cannot be written.
int refuse(CliMistakes mistakes);

// What the report's file says while there is nothing to report.
ReportFacts facts_before_the_start(const RunInputs& inputs);

}  // namespace cpprun::io
