// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/settings.h"

#include "launcher/cli/ending_settings.h"
#include "launcher/cli/log_settings.h"
#include "launcher/cli/rendezvous_settings.h"
#include "launcher/cli/setting_reader.h"
#include "launcher/cli/worker_settings.h"

namespace cpprun {

Config config_of(const Settings& settings, const CommandLine& line,
                 std::vector<std::string>& mistakes) {
  Config config;
  SettingReader reader(settings, line.environment, mistakes, config.notes);
  read_rendezvous_settings(reader, line.random_id, config);
  read_worker_settings(reader, line, config);
  read_ending_settings(reader, config);
  read_log_settings(reader, config);
  return config;
}

}  // namespace cpprun
