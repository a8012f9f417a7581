// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/process_usage.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>

#include "launcher/workers/io/process_tree.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

constexpr std::size_t usage_bytes_max = 4096;

std::int64_t number_at(const std::vector<std::string_view>& words, std::size_t index) {
  return index < words.size() ? leading_number<std::int64_t>(words[index]).value_or(0) : 0;
}

}  // namespace

std::optional<ProcessUsage> usage_of(int pid) {
  const auto stat = read_proc(fmt::format("/proc/{}/stat", pid), usage_bytes_max);
  const auto statm = read_proc(fmt::format("/proc/{}/statm", pid), usage_bytes_max);
  // The name may hold anything, a bracket as well: what follows the last one is numbers.
  const auto name_end = stat ? stat->rfind(')') : std::string::npos;
  if (!statm || name_end == std::string::npos || name_end + 2 > stat->size()) return std::nullopt;
  const auto words = split(std::string_view(*stat).substr(name_end + 2), ' ');
  constexpr std::size_t user_word = 11;  // of those behind the name
  constexpr std::size_t system_word = 12;
  constexpr std::size_t resident_word = 1;
  static const std::int64_t ticks_a_second = ::sysconf(_SC_CLK_TCK);
  static const std::int64_t page_kib = ::sysconf(_SC_PAGESIZE) / 1024;
  const std::int64_t ticks = number_at(words, user_word) + number_at(words, system_word);
  return ProcessUsage{.resident_kib = number_at(split(*statm, ' '), resident_word) * page_kib,
                      .cpu = std::chrono::nanoseconds(ticks * (1'000'000'000 / ticks_a_second))};
}

}  // namespace cpprun::io
