// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/world_look.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include "launcher/workers/io/process_tree.h"
#include "proto/bounds.h"

namespace cpprun::io {

namespace {

std::string proc(int pid, const char* name) {
  return read_proc("/proc/" + std::to_string(pid) + "/" + name, bounds::socket_table_bytes_max)
      .value_or("");
}

// Which ports are served, by the inodes of their sockets: "  0: 0100007F:3043 00000000:0000 0A …".
void add_listening(const std::string& table, std::map<std::string, int>& port_of_inode) {
  constexpr int local_word = 1;
  constexpr int state_word = 3;
  constexpr int inode_word = 9;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream stream(line);
    std::array<std::string, inode_word + 1> words;
    for (std::string& word : words) stream >> word;
    if (words[state_word] != "0A") continue;
    const std::string& local = words[local_word];
    const auto colon = local.rfind(':');
    int port = 0;
    if (colon == std::string::npos) continue;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), port, 16);
    port_of_inode[words[inode_word]] = port;
  }
}

// "socket:[4711]" of each open descriptor.
std::set<std::string> sockets_of(int pid) {
  constexpr std::string_view beginning = "socket:[";
  std::set<std::string> inodes;
  std::error_code unreadable;  // It has ended, or is not ours to see.
  const auto folder = "/proc/" + std::to_string(pid) + "/fd";
  for (const auto& each : std::filesystem::directory_iterator(folder, unreadable)) {
    std::error_code closed;  // Meanwhile.
    const auto target = std::filesystem::read_symlink(each.path(), closed).string();
    if (!target.starts_with(beginning)) continue;
    inodes.insert(target.substr(beginning.size(), target.size() - beginning.size() - 1));
  }
  return inodes;
}

// What is read here never waits for a process: its command line would, for the lock of its memory.
struct Stat {
  std::string name;
  Duration processor_time{};
  std::string stack;  // where it begins: the same in a process that was only forked
};

Stat stat_of(int pid) {
  constexpr int user_word = 14;
  constexpr int stack_word = 28;
  const std::string text = proc(pid, "stat");
  const auto name_begin = text.find('(');
  const auto name_end = text.rfind(')');
  if (name_begin == std::string::npos || name_end == std::string::npos) return {};
  std::istringstream stream(text.substr(name_end + 1));
  Stat stat{.name = text.substr(name_begin + 1, name_end - name_begin - 1)};
  std::string word;
  for (int skipped = 3; skipped < user_word; ++skipped) stream >> word;
  long user = 0;
  long system = 0;
  stream >> user >> system;
  for (int skipped = user_word + 2; skipped <= stack_word; ++skipped) stream >> stat.stack;
  const long ticks = std::max(1L, ::sysconf(_SC_CLK_TCK));
  stat.processor_time =
      std::chrono::duration_cast<Duration>(std::chrono::seconds(user + system)) / ticks;
  return stat;
}

// A Python that was executed anew, as multiprocessing does it for mp.spawn; a DataLoader only
// forks.
bool is_spawned(const Stat& child, const Stat& worker) {
  const bool python = child.name.starts_with("python") || child.name == "pt_main_thread";
  return python && child.stack != worker.stack;
}

}  // namespace

WorldLook look_at_world(int pid) {
  WorldLook look;
  std::map<std::string, int> port_of_inode;
  for (const char* table : {"net/tcp", "net/tcp6"}) add_listening(proc(pid, table), port_of_inode);
  std::vector<int> family = descendants_of(pid);
  family.insert(family.begin(), pid);
  if (family.size() > bounds::family_looked_at_max) family.resize(bounds::family_looked_at_max);
  const Stat worker = stat_of(pid);
  for (const int each : family) {
    const Stat stat = stat_of(each);
    look.processor_time += stat.processor_time;
    if (each != pid && is_spawned(stat, worker))
      look.spawned.push_back(fmt::format("pid {}", each));
    for (const std::string& inode : sockets_of(each)) {
      const auto found = port_of_inode.find(inode);
      if (found == port_of_inode.end()) continue;
      look.listeners.push_back(fmt::format("pid {} listens on port {}", each, found->second));
    }
  }
  // One alone is multiprocessing's own, which looks after shared memory.
  if (look.spawned.size() == 1) look.spawned.clear();
  return look;
}

}  // namespace cpprun::io
