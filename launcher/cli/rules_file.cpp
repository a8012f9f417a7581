// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/rules_file.h"

#include "launcher/cli/config_file.h"
#include "launcher/cli/declaration.h"
#include "launcher/cli/ending_settings.h"
#include "launcher/cli/flags.h"
#include "launcher/cli/mistakes.h"

namespace cpprun {

RulesFile read_rules_file(const std::string& path, const std::string& text) {
  Flags flags;
  Declaration declaration(flags);
  Mistakes mistakes;
  tell_config_file(path, text, declaration, mistakes);
  declaration.settle(mistakes);
  Config config;
  const Environment environment;
  SettingReader reader(flags, environment, mistakes, config.notes);
  const auto no_file = [](const std::string&) -> Result<std::string> { return failure("none"); };
  read_ending_settings(reader, no_file, config);
  return {.rules = config.restarts, .mistakes = mistakes.sentences()};
}

}  // namespace cpprun
