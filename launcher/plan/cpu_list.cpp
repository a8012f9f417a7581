// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/cpu_list.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "proto/bounds.h"

namespace cpprun {

namespace {

std::optional<int> number(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with('\n') || text.ends_with(' ')) text.remove_suffix(1);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && value >= 0 && value < bounds::cpus_max ? std::optional(value) : std::nullopt;
}

}  // namespace

CpuSet parse_cpu_list(std::string_view text) {
  CpuSet cpus;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto range = text.substr(0, comma);
    const auto dash = range.find('-');
    const auto first = number(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
    if (first && last) {
      for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
    }
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
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
