// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/io/terminal.h"

#include <unistd.h>

#include <ctime>

#include "launcher/output/io/output_pump.h"

namespace cpprun::io {

ConsoleStyle console_style(const Environment& environment, const LogOptions& logs) {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const std::string* no_colour = find_variable(environment, "NO_COLOR");
  const std::string* kind = find_variable(environment, "TERM");
  const bool refused =
      (no_colour != nullptr && !no_colour->empty()) || (kind != nullptr && *kind == "dumb");
  const bool timed =
      logs.times == LogTimes::always || (logs.times == LogTimes::automatic && !terminal);
  return {.terminal = terminal, .colour = terminal && !refused, .timed = timed, .most = logs.level};
}

ConsoleFacts console_facts() {
  return {.terminal = ::isatty(STDERR_FILENO) == 1, .one = same_file(STDOUT_FILENO, STDERR_FILENO)};
}

int utc_offset_seconds() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (::localtime_r(&now, &local) == nullptr) return 0;
  return static_cast<int>(local.tm_gmtoff);
}

}  // namespace cpprun::io
