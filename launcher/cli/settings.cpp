// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/settings.h"

#include "launcher/cli/ending_settings.h"
#include "launcher/cli/log_settings.h"
#include "launcher/cli/rendezvous_settings.h"
#include "launcher/cli/secret_settings.h"
#include "launcher/cli/setting_reader.h"
#include "launcher/cli/worker_settings.h"

namespace cpprun {

Config config_of(const Flags& flags, const CommandLine& line, Mistakes& mistakes) {
  Config config;
  SettingReader reader(flags, line.environment, mistakes, config.notes);
  read_rendezvous_settings(reader, line.random_id, config);
  read_secret_settings(reader, config);
  read_worker_settings(reader, line, config);
  read_ending_settings(reader, line.read_file, config);
  read_log_settings(reader, config);
  // A shell that is known was answered before anything else was looked at.
  if (const auto& shell = flags.print_completion; shell.value) {
    reader.complain(shell, "={} is none of bash, zsh, fish, tcsh", *shell.value);
  }
  return config;
}

}  // namespace cpprun
