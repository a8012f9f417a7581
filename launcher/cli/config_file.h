// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// --config FILE: defaults for flags, one per line, `nnodes = 2`. Values may be written as in TOML
// or INI: quoted or not, and lists in brackets. Errors name the line.

#include <string>
#include <vector>

#include "launcher/cli/declaration.h"
#include "launcher/cli/flags.h"
#include "proto/restart_rules.h"

namespace cpprun {

// Sets flags from `text`, the content of the file at `path`.
void tell_config_file(const std::string& path, const std::string& text, Declaration& declaration,
                      Diagnostics& diagnostics);

// The restart rules in a --config file, for tools that need them without a job.
struct RulesFile {
  RestartRules rules;
  std::vector<std::string>
      diagnostics;  // one sentence each, with the line; if not empty, `rules` is not set
};

// All flags of the file are read and checked, not only those about failures.
RulesFile read_rules_file(const std::string& path, const std::string& text);

}  // namespace cpprun
