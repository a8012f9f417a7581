// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/console_style.h"

namespace cpprun {

ConsoleStyle console_style(bool terminal, const Environment& environment, const LogOptions& logs) {
  const std::string* no_colour = find_variable(environment, "NO_COLOR");
  const std::string* kind = find_variable(environment, "TERM");
  // Set but empty counts as not set: so the convention has it (no-color.org).
  const bool refused =
      (no_colour != nullptr && !no_colour->empty()) || (kind != nullptr && *kind == "dumb");
  const bool timed =
      logs.times == LogTimes::always || (logs.times == LogTimes::automatic && !terminal);
  return {.terminal = terminal, .colour = terminal && !refused, .timed = timed, .most = logs.level};
}

}  // namespace cpprun
