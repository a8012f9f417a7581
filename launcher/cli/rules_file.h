// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a --config file says a job does about failures, for whoever wants to know it without a job.

#include <string>
#include <vector>

#include "proto/restart_rules.h"

namespace cpprun {

struct RulesFile {
  RestartRules rules;
  std::vector<std::string>
      mistakes;  // a sentence each, with the line; where there are any, no rules
};

// The other flags of the file are read as well, and what is wrong with them is told, too.
RulesFile read_rules_file(const std::string& path, const std::string& text);

}  // namespace cpprun
