// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/proc_tables.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <sstream>

#include "proto/text.h"

namespace cpprun {

// "  0: 0100007F:3043 00000000:0000 0A …": words two to four are its address, the peer's and the
// state, of which 0A is listening; the tenth is the inode.
void add_listening(std::string_view table, std::map<std::string, int>& port_of_inode) {
  constexpr int local_word = 1;
  constexpr int state_word = 3;
  constexpr int inode_word = 9;
  for (const std::string_view line : split(table, '\n')) {
    std::istringstream stream{std::string(line)};
    std::array<std::string, inode_word + 1> words;
    for (std::string& word : words) stream >> word;
    if (words[state_word] != "0A") continue;
    const std::string_view local = words[local_word];
    const auto colon = local.rfind(':');
    if (colon == std::string_view::npos) continue;
    const auto port = hex_number<int>(local.substr(colon + 1));
    if (port) port_of_inode[words[inode_word]] = *port;
  }
}

ProcessUse process_use(const std::string& stat, long ticks_per_second) {
  constexpr int user_word = 14;
  constexpr int stack_word = 28;
  // The name may hold blanks and brackets; what follows the last bracket is regular.
  const auto name_begin = stat.find('(');
  const auto name_end = stat.rfind(')');
  if (name_begin == std::string::npos || name_end == std::string::npos) return {};
  std::istringstream stream(stat.substr(name_end + 1));
  ProcessUse use{.name = stat.substr(name_begin + 1, name_end - name_begin - 1)};
  std::string word;
  for (int skipped = 3; skipped < user_word; ++skipped) stream >> word;
  long user = 0;
  long system = 0;
  stream >> user >> system;
  for (int skipped = user_word + 2; skipped <= stack_word; ++skipped) stream >> use.stack;
  use.processor_time = std::chrono::duration_cast<Duration>(std::chrono::seconds(user + system)) /
                       std::max(1L, ticks_per_second);
  return use;
}

bool is_spawned(const ProcessUse& child, const ProcessUse& worker) {
  const bool python = child.name.starts_with("python") || child.name == "pt_main_thread";
  return python && child.stack != worker.stack;
}

}  // namespace cpprun
