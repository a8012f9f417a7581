// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/scheduler/slurm_conf.h"

#include <strings.h>

#include <string>

#include "launcher/scheduler/said.h"
#include "proto/text.h"

namespace cpprun {

std::optional<int> kill_wait_in(std::string_view configuration) {
  std::optional<int> found;  // the last one counts
  for (const auto line : split(configuration, '\n')) {
    const auto said = line.substr(0, line.find('#'));
    const auto equals = said.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string name(trimmed(said.substr(0, equals)));
    if (::strcasecmp(name.c_str(), "KillWait") != 0) continue;
    const auto seconds = whole_number(said.substr(equals + 1));
    if (seconds && *seconds >= 0) found = seconds;
  }
  return found;
}

std::optional<Said<std::chrono::seconds>> slurm_kill_wait(const Environment& environment,
                                                          const TextFile& read_file) {
  if (!said_text(environment, {"SLURM_JOB_ID"})) return std::nullopt;
  const auto path = said_text(environment, {"SLURM_CONF"});
  const auto text = read_file(path ? path->value : "/etc/slurm/slurm.conf");
  const auto seconds = text ? kill_wait_in(*text) : std::nullopt;
  if (!seconds) return std::nullopt;
  return Said<std::chrono::seconds>{std::chrono::seconds(*seconds),
                                    "KillWait=" + std::to_string(*seconds)};
}

}  // namespace cpprun
