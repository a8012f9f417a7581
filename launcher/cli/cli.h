// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Parses cpprun's command line, which accepts torchrun's flags, from the given arguments,
// environment and files. All errors are found in one pass and reported together, each with its flag
// and a valid alternative.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/cli/declaration.h"
#include "launcher/cli/flags.h"
#include "launcher/config.h"
#include "launcher/fanout/fan_out.h"
#include "launcher/plan/program.h"
#include "launcher/scheduler/scheduler_facts.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

struct CommandLine {
  std::vector<std::string> words;  // without argv[0]
  Environment environment;
  // Called only if the number of workers depends on them.
  std::function<int()> count_cpus;
  std::function<int()> count_devices;
  std::string random_id;  // the job id of a standalone run
  std::string version;    // what --version prints: the number and the commit
  TextFile read_file;     // for --config, and for files that schedulers provide
  FileProbe probe_file;   // whether the script can be run
};

// --help, --version: to stdout, exit 0.
struct CliText {
  std::string text;
  friend bool operator==(const CliText&, const CliText&) = default;
};

// Printed to stderr; exit code 2.
struct CliDiagnostics {
  std::vector<std::string> diagnostics;
  // The files named by --report and --events, as far as known. A report of an earlier run must not
  // stay there. A file that cannot be written is another error.
  std::string report_file = {};
  std::string events_file = {};
  friend bool operator==(const CliDiagnostics&, const CliDiagnostics&) = default;
};

// A job that the console starts on its hosts. `config` holds only what the console itself needs.
struct CliFanOut {
  Config config;
  fanout::Request request;
};

// --dry-run: prints what would be started and starts nothing. Values that are generated at start,
// such as a missing job id, are empty in `config`.
struct CliDryRun {
  Config config;
  std::optional<fanout::Request> request;  // if hosts were given
  bool as_json = false;
};

// A Config may still name a script that cannot be run. If that is the only error, the start fails
// with the requested report. Otherwise the script is listed among the CliDiagnostics.
using CliOutcome = std::variant<Config, CliText, CliDiagnostics, CliFanOut, CliDryRun>;

CliOutcome read_command_line(const CommandLine& line);

// One line per error, and where to find help.
std::string to_text(const CliDiagnostics& diagnostics);

// Warnings about script arguments that look like flags only a launcher has, and that were not also
// given to cpprun.
std::vector<std::string> notes_of_arguments(const std::vector<FlagFacts>& flags,
                                            const TypedWords& words);

// Uses the scheduler's facts as defaults for flags that the user did not set. Call after the file,
// the environment and the arguments are read, and before the values are parsed. Returns notes to
// print at the start: what was taken from where.
std::vector<std::string> tell_scheduler(const SchedulerFacts& facts, const Flags& flags,
                                        const CommandLine& line, Declaration& declaration,
                                        Diagnostics& diagnostics);

// --hosts and --hostfile: one command starts all hosts. Other settings are turned into flags for
// the agents, whether they came from the command line, the environment or a --config file. nullopt
// if no hosts are given. Removes from `flags` those meant only for the agents; the rest applies to
// the console. The caller adds the program and the grace period.
std::optional<fanout::Request> fan_out_request(Flags& flags, const Declaration& declaration,
                                               const CommandLine& line, Diagnostics& diagnostics);

}  // namespace cpprun
