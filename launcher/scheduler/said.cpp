// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/scheduler/said.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "proto/text.h"

namespace cpprun {

std::optional<Said<int>> said_number(const Environment& environment, int lowest,
                                     std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    const auto* text = find_variable(environment, name);
    const auto number = text == nullptr ? std::nullopt : exact_number<int>(*text);
    if (number && *number >= lowest) return Said<int>{*number, std::string(name)};
  }
  return std::nullopt;
}

std::optional<Said<std::string>> said_text(const Environment& environment,
                                           std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    const auto* text = find_variable(environment, name);
    if (text != nullptr && !text->empty()) return Said<std::string>{*text, std::string(name)};
  }
  return std::nullopt;
}

int port_of(std::string_view text) {
  constexpr std::uint32_t first = 20000;
  constexpr std::uint32_t span = 10000;
  // FNV-1a, 32 bits (Fowler, Noll, Vo): every node has to find the same number.
  std::uint32_t hash = 2166136261U;
  for (const char byte : text) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619U;
  }
  return static_cast<int>(first + hash % span);
}

std::string tasks_here(const Said<int>& tasks) {
  return fmt::format("{} tasks on this node ({})", tasks.value, tasks.source);
}

std::string crowded_text(std::string_view starter, std::string_view tasks, std::string_view cure) {
  return fmt::format(
      "{} started {}, and cpprun wants one on each node and starts the workers itself: {}; "
      "--standalone makes a job of each, --no-scheduler ignores {}",
      starter, tasks, cure, starter);
}

std::vector<std::string> hosts_of_lines(std::string_view text) {
  std::vector<std::string> hosts;
  for (const auto line : split(text, '\n')) {
    const std::string host(trimmed(line));
    if (!host.empty() && std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

}  // namespace cpprun
