// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/cpu_list.h"

#include <fmt/format.h>

#include <optional>

#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

std::optional<int> processor(std::string_view text) {
  const auto number = exact_number<int>(trimmed(text));
  return number && *number >= 0 && *number < bounds::cpus_max ? number : std::nullopt;
}

}  // namespace

CpuSet parse_cpu_list(std::string_view text) {
  CpuSet cpus;
  for (const std::string_view range : split(text, ',')) {
    const auto dash = range.find('-');
    const auto first = processor(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : processor(range.substr(dash + 1));
    if (!first || !last) continue;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
  }
  return cpus;
}

std::string to_cpu_list(const CpuSet& cpus) {
  std::string text;
  for (auto at = cpus.begin(); at != cpus.end();) {
    const int first = *at;
    int last = first;
    while (++at != cpus.end() && *at == last + 1) last = *at;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last != first) text += fmt::format("-{}", last);
  }
  return text;
}

}  // namespace cpprun
