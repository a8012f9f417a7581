// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/io/terminal.h"

#include <unistd.h>

#include <ctime>

#include "launcher/output/io/output_streams.h"

namespace cpprun::io {

ConsoleStyle own_console_style(const Environment& environment, const LogOptions& logs) {
  return console_style(::isatty(STDERR_FILENO) == 1, environment, logs);
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
