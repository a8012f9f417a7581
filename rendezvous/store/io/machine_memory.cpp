// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/machine_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {
namespace {

constexpr std::size_t file_bytes_max = 1 << 20;  // much more than any of these has
// What clients may always hold, however small the machine: enough for a job's rendezvous.
constexpr std::uint64_t memory_bytes_min = 8ULL * 1024 * 1024;

// The contents of a small file; empty if it cannot be read. Uses no stream, because that would cost
// more than the reading itself, at each start.
std::string text_of(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> buffer;
  while (file && text.size() < file_bytes_max) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

// The number in a file with one number; nothing if it says "max" or cannot be read.
std::optional<std::uint64_t> number_in(const std::string& path) {
  return exact_number<std::uint64_t>(trimmed(text_of(path)));
}

std::uint64_t physical_bytes(const std::string& root) {
  constexpr std::string_view name = "MemTotal:";
  const std::string text = text_of(root + "/proc/meminfo");
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(name)) continue;
    const auto kibibytes = leading_number<std::uint64_t>(trimmed(line.substr(name.size())));
    if (kibibytes) return *kibibytes * 1024;
  }
  return MemoryLimits::none;
}

// A limit may be set in our group or in any above it. Inside a container our own path may not
// exist; then the root of the mount is the container's group.
std::uint64_t limit_along(const std::string& mount, std::string group, const char* file) {
  std::uint64_t limit = MemoryLimits::none;
  while (true) {
    limit = std::min(limit, number_in(mount + group + "/" + file).value_or(limit));
    if (group.empty()) return limit;
    group.resize(std::min(group.rfind('/'), group.size() - 1));
  }
}

std::uint64_t group_bytes(const std::string& root) {
  std::uint64_t limit = MemoryLimits::none;
  const std::string text = text_of(root + "/proc/self/cgroup");
  for (const std::string_view line : split(text, '\n')) {
    // "0::/group" in version 2, "9:memory:/group" in version 1.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto names = line.substr(first + 1, second - first - 1);
    const std::string controllers = "," + std::string(names) + ",";
    std::string group(line.substr(second + 1));
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

MemoryLimits memory_of_this_machine(const std::string& root) {
  const std::uint64_t usable = usable_memory_bytes(root);
  if (usable == MemoryLimits::none) return {};
  return {.bytes_max = std::max(usable / 2, memory_bytes_min)};
}

}  // namespace cpprun
