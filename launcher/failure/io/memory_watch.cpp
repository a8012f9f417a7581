// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/io/memory_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "launcher/workers/io/process_tree.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

constexpr std::size_t cgroup_text_bytes_max = 64 * 1024;
// What version 1 gives where there is no limit is near the largest number of pages.
constexpr double no_limit_bytes = 1e18;

// The number after "name " at the beginning of a line.
std::optional<double> number_after(const std::string& text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ') continue;
    if (const auto number = leading_number<double>(line.substr(name.size() + 1))) return number;
  }
  return std::nullopt;
}

// Our group in the hierarchy of that controller; "" names version 2's only one. `text` is what
// /proc/self/cgroup says.
std::optional<std::string> group_of(std::string_view controller, const std::string& text) {
  for (const std::string_view line : split(text, '\n')) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const auto names = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const bool ours = controller.empty()
                          ? names == ",,"
                          : names.find("," + std::string(controller) + ",") != std::string::npos;
    if (ours) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

// Where our group's files may lie. In a container the path is the host's and leads nowhere, and
// the group is the root of what is mounted.
std::vector<std::string> group_folders() {
  const auto text = read_proc("/proc/self/cgroup", cgroup_text_bytes_max).value_or("");
  std::vector<std::string> folders;
  if (const auto group = group_of("memory", text)) {
    folders.push_back("/sys/fs/cgroup/memory" + *group);
    folders.emplace_back("/sys/fs/cgroup/memory");
  }
  if (const auto group = group_of("", text)) {
    folders.push_back("/sys/fs/cgroup" + *group);
    folders.push_back("/sys/fs/cgroup/unified" + *group);
    folders.emplace_back("/sys/fs/cgroup");
  }
  return folders;
}

// The first of those files that is there.
std::optional<std::string> group_file(const std::string& v1, const std::string& v2) {
  for (const auto& folder : group_folders()) {
    for (const auto& name : {v2, v1}) {
      if (auto text = read_proc(folder + "/" + name, cgroup_text_bytes_max)) return text;
    }
  }
  return std::nullopt;
}

}  // namespace

OomKills oom_kills() {
  OomKills kills;
  if (const auto text = group_file("memory.oom_control", "memory.events")) {
    if (const auto count = number_after(*text, "oom_kill")) {
      kills.in_group = static_cast<long>(*count);
      // Whoever is counted here was one of ours; what happens elsewhere on the machine is not.
      return kills;
    }
  }
  const auto machine = read_proc("/proc/vmstat", cgroup_text_bytes_max).value_or("");
  kills.on_machine = static_cast<long>(number_after(machine, "oom_kill").value_or(0));
  return kills;
}

std::string memory_limit() {
  const auto text = group_file("memory.limit_in_bytes", "memory.max");
  const auto bytes = leading_number<double>(text.value_or(""));
  if (!bytes || *bytes <= 0 || *bytes > no_limit_bytes) return "";
  constexpr double kilo = 1024;
  const auto mebibytes = *bytes / kilo / kilo;
  return mebibytes < kilo ? fmt::format("{:.0f} MiB", mebibytes)
                          : fmt::format("{:.1f} GiB", mebibytes / kilo);
}

}  // namespace cpprun::io
