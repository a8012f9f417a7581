// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun {
namespace {

// The number in a file of one number; nothing where it says "max" or cannot be read.
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return exact_number<std::uint64_t>(word);
}

std::uint64_t physical_bytes(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kibibytes = 0;
    if (words >> name >> kibibytes && name == "MemTotal:") return kibibytes * 1024;
  }
  return LedgerLimits::none;
}

// A limit may be set in our group or in any above it. Inside a container our own path may not be
// there; then the root of what is mounted is the container's group.
std::uint64_t limit_along(const std::string& mount, std::string group, const char* file) {
  std::uint64_t limit = LedgerLimits::none;
  while (true) {
    limit = std::min(limit, number_in(mount + group + "/" + file).value_or(limit));
    if (group.empty()) return limit;
    group.resize(std::min(group.rfind('/'), group.size() - 1));
  }
}

std::uint64_t group_bytes(const std::string& root) {
  std::uint64_t limit = LedgerLimits::none;
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    // "0::/group" of version 2, "9:memory:/group" of version 1.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers == ",,") {
      limit = std::min(limit, limit_along(root + "/sys/fs/cgroup", group, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      limit = std::min(limit,
                       limit_along(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return limit;
}

}  // namespace

std::uint64_t usable_memory_bytes(const std::string& root) {
  return std::min(physical_bytes(root), group_bytes(root));
}

LedgerLimits memory_of_this_machine() {
  const std::uint64_t usable = usable_memory_bytes();
  if (usable == LedgerLimits::none) return {};
  return {.bytes_max = std::max(usable / 2, bounds::store_memory_bytes_min)};
}

}  // namespace cpprun
