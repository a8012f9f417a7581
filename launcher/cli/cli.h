// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The command line: torchrun's, flag by flag, read from the given words, environment and files. All
// mistakes are found in one pass and reported together, each with its flag and what would be right.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/cli/declaration.h"
#include "launcher/config.h"
#include "launcher/fanout/fan_out.h"
#include "launcher/plan/program.h"
#include "launcher/text_file.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

struct CommandLine {
  std::vector<std::string> words;  // without the program's own name
  Environment environment;
  // Of the machine: asked only where the number of workers depends on it.
  std::function<int()> count_cpus;
  std::function<int()> count_devices;
  std::string random_id;  // the job id of a standalone run
  std::string version;    // what --version says: the number and the commit
  TextFile read_file;     // for --config, and what schedulers leave in files
  FileProbe probe_file;   // whether the script can be run
};

// --help, --version: to stdout, exit 0.
struct CliText {
  std::string text;
  friend bool operator==(const CliText&, const CliText&) = default;
};

// To stderr, exit 2.
struct CliMistakes {
  std::vector<std::string> mistakes;
  // What --report and --events named, as far as that is known: the report of an earlier run must
  // not stay there, and what cannot be written is one mistake more.
  std::string report_file = {};
  std::string events_file = {};
  friend bool operator==(const CliMistakes&, const CliMistakes&) = default;
};

// A job that a console starts on its hosts; `config` is what the console itself needs of it.
struct CliFanOut {
  Config config;
  fanout::Request request;
};

// --dry-run: what would be started is told, and nothing is. Whatever is made up at a start is empty
// in `config`: the id of a job that was given none.
struct CliDryRun {
  Config config;
  std::optional<fanout::Request> request;  // where it has hosts
  bool as_json = false;
};

// A Config may still name a script that cannot be run. On its own that is refused at the start,
// with the report that was asked for; it is listed as a mistake only beside others.
using CliOutcome = std::variant<Config, CliText, CliMistakes, CliFanOut, CliDryRun>;

CliOutcome read_command_line(const CommandLine& line);

// One line each, and where to find help.
std::string to_text(const CliMistakes& mistakes);

// The way from the words a person typed to flags by their full names, as torchrun reads them: both
// spellings, unique beginnings, glued letters, and where the script's own arguments begin. That
// last thing, and a mistake that does not hide the next one, are what CLI11 cannot do here.

// In order; later ones win.
struct TypedFlag {
  const FlagFacts* flag = nullptr;
  std::string spelled;    // as it was typed, for complaints
  std::string value;      // empty for a flag without one
  bool is_apart = false;  // the value is a word of its own
};

struct TypedWords {
  std::vector<TypedFlag> typed;
  std::optional<std::string> script;
  std::vector<std::string> arguments;  // of the script, verbatim
  std::vector<std::string> mistakes;
  // The flag whose value is probably the script; nullptr: none.
  const TypedFlag* swallower() const;
};

// "rdzv_id" is "rdzv-id".
std::string flag_name(std::string_view spelled);

// Sentences about arguments of the script that are spelled as flags of the launcher alone are, and
// that were not given to it as well.
std::vector<std::string> notes_of_arguments(const std::vector<FlagFacts>& flags,
                                            const TypedWords& words);

// What was typed points into `flags`.
TypedWords read_words(const std::vector<FlagFacts>& flags, const std::vector<std::string>& words);

}  // namespace cpprun
