// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/world_look.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>
#include <string_view>

#include "launcher/agent/misconfiguration.h"
#include "launcher/workers/io/process_tree.h"
#include "proto/bounds.h"

namespace cpprun::io {

namespace {

std::string read_process(int pid, const char* name) {
  return read_proc("/proc/" + std::to_string(pid) + "/" + name, bounds::socket_table_bytes_max)
      .value_or("");
}

// The inodes from the "socket:[4711]" links of all open descriptors.
std::set<std::string> sockets_of(int pid) {
  constexpr std::string_view beginning = "socket:[";
  std::set<std::string> inodes;
  std::error_code unreadable;  // the process has exited or may not be inspected
  const auto folder = "/proc/" + std::to_string(pid) + "/fd";
  for (const auto& each : std::filesystem::directory_iterator(folder, unreadable)) {
    std::error_code closed;  // closed meanwhile
    const auto target = std::filesystem::read_symlink(each.path(), closed).string();
    if (!target.starts_with(beginning)) continue;
    inodes.insert(target.substr(beginning.size(), target.size() - beginning.size() - 1));
  }
  return inodes;
}

ProcessUse use_of(int pid) {
  return process_use(read_process(pid, "stat"), ::sysconf(_SC_CLK_TCK));
}

}  // namespace

WorldLook look_at_world(int pid) {
  WorldLook look;
  std::map<std::string, int> port_of_inode;
  for (const char* table : {"net/tcp", "net/tcp6"})
    add_listening(read_process(pid, table), port_of_inode);
  std::vector<int> family = descendants_of(pid);
  family.insert(family.begin(), pid);
  if (family.size() > bounds::family_looked_at_max) family.resize(bounds::family_looked_at_max);
  const ProcessUse worker = use_of(pid);
  for (const int each : family) {
    const ProcessUse use = use_of(each);
    look.processor_time += use.processor_time;
    if (each != pid && is_spawned(use, worker)) look.spawned.push_back(fmt::format("pid {}", each));
    for (const std::string& inode : sockets_of(each)) {
      const auto found = port_of_inode.find(inode);
      if (found == port_of_inode.end()) continue;
      look.listeners.push_back(fmt::format("pid {} listens on port {}", each, found->second));
    }
  }
  // A single one is multiprocessing's resource tracker for shared memory.
  if (look.spawned.size() == 1) look.spawned.clear();
  return look;
}

}  // namespace cpprun::io
