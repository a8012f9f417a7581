// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// --config FILE: defaults for flags, one per line, `nnodes = 2`. CLI11 reads the values, quotes and
// lists of TOML and INI; this adds what it does not report: the line something is on, that a key is
// unknown or repeated, and that a file is not of this kind at all.

#include <string>
#include <vector>

#include "launcher/cli/declaration.h"
#include "launcher/cli/flags.h"
#include "proto/restart_rules.h"

namespace cpprun {

// Tells the flags what the `text` of the file at `path` says of them.
void tell_config_file(const std::string& path, const std::string& text, Declaration& declaration,
                      Mistakes& mistakes);

// What a --config file says a job does about failures, for whoever wants to know it without a job.
struct RulesFile {
  RestartRules rules;
  std::vector<std::string>
      mistakes;  // a sentence each, with the line; where there are any, no rules
};

// The other flags of the file are read as well, and what is wrong with them is told, too.
RulesFile read_rules_file(const std::string& path, const std::string& text);

}  // namespace cpprun
