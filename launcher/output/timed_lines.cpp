// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/timed_lines.h"

#include "rendezvous/logging.h"

namespace cpprun {

std::string timed(std::string_view text, WallTime now) {
  const std::string time = log_time(now);
  std::string result;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end == std::string_view::npos ? end : end + 1);
    auto words = line;
    if (words.starts_with("\x1b[")) words.remove_prefix(words.find('m') + 1);
    if (words.starts_with("cpprun: ")) result += time;
    result += line;
    text.remove_prefix(line.size());
  }
  return result;
}

}  // namespace cpprun
