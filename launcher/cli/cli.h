// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The command line: torchrun's, flag by flag, read from the words and the environment it is handed.
// All mistakes are found in one pass and told together, each with its flag and what would be right.

#include <string>
#include <variant>
#include <vector>

#include "launcher/config.h"
#include "launcher/environment.h"

namespace cpprun {

struct CommandLine {
  std::vector<std::string> words;  // without the program's own name
  Environment environment;
  int cpu_count = 1;
  int device_count = 0;
  std::string random_id;  // the job id of a standalone run
  std::string version;    // what --version says: the number and the commit
};

// --help, --version: to stdout, exit 0.
struct CliText {
  std::string text;
  friend bool operator==(const CliText&, const CliText&) = default;
};

// To stderr, exit 2.
struct CliMistakes {
  std::vector<std::string> mistakes;
  friend bool operator==(const CliMistakes&, const CliMistakes&) = default;
};

using CliOutcome = std::variant<Config, CliText, CliMistakes>;

CliOutcome read_command_line(const CommandLine& line);

// One line each, and where to find help.
std::string to_text(const CliMistakes& mistakes);

}  // namespace cpprun
