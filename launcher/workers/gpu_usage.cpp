// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/gpu_usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "proto/text.h"

namespace cpprun {

std::string to_text(const std::vector<GpuReading>& readings) {
  std::string text;
  for (const auto& [use, uuid, pids] : readings) {
    text += fmt::format("{} {} {} {} {} {}\n", use.index, use.percent, use.used_mib, use.total_mib,
                        uuid, fmt::join(pids, ","));
  }
  return text;
}

std::vector<GpuReading> gpu_readings_of(std::string_view text) {
  std::vector<GpuReading> readings;
  for (const auto line : split(text, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() != 6) continue;
    const auto index = exact_number<int>(words[0]);
    const auto percent = exact_number<int>(words[1]);
    const auto used = exact_number<std::int64_t>(words[2]);
    const auto total = exact_number<std::int64_t>(words[3]);
    if (!index || !percent || !used || !total) continue;
    GpuReading reading{.use = {*index, *percent, *used, *total}, .uuid = std::string(words[4])};
    for (const auto word : split(words[5], ',')) {
      if (const auto pid = exact_number<int>(word)) reading.pids.push_back(*pid);
    }
    readings.push_back(std::move(reading));
  }
  return readings;
}

std::optional<link::GpuUse> gpu_of_worker(const std::vector<GpuReading>& readings,
                                          const std::vector<int>& pids,
                                          const std::optional<std::string>& visible,
                                          LocalRank local_rank) {
  const auto its = std::ranges::find_if(readings, [&](const GpuReading& each) {
    return std::ranges::find_first_of(each.pids, pids) != each.pids.end();
  });
  if (its != readings.end()) return its->use;
  const auto local = static_cast<std::size_t>(local_rank.value);
  std::string name = std::to_string(local);
  if (visible) {
    const auto names = split(*visible, ',');
    const std::size_t at = names.size() == 1 ? 0 : local;
    if (at >= names.size()) return std::nullopt;
    name = std::string(trimmed(names[at]));
  }
  // CUDA accepts the beginning of a UUID, too.
  const auto expected = std::ranges::find_if(readings, [&](const GpuReading& each) {
    return name == std::to_string(each.use.index) ||
           (name.starts_with("GPU-") && each.uuid.starts_with(name));
  });
  if (expected == readings.end()) return std::nullopt;
  return expected->use;
}

}  // namespace cpprun
