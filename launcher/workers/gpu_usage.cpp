// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/gpu_usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "proto/text.h"

namespace cpprun {

namespace {

// A driver without any work uses up to some hundred MiB of a GPU.
constexpr std::int64_t used_mib_min = 512;

// The name of the device with that number for the worker; empty: it sees none.
std::string expected_device(const std::optional<std::string>& visible, std::size_t local_rank) {
  if (!visible) return std::to_string(local_rank);
  const auto names = split(*visible, ',');
  const std::size_t at = names.size() == 1 ? 0 : local_rank;
  if (at >= names.size()) return {};
  // CUDA ignores the first name that is invalid, and all after it.
  for (std::size_t i = 0; i <= at; ++i) {
    const auto name = trimmed(names[i]);
    if (!name.starts_with("GPU-") && !exact_number<unsigned>(name)) return {};
  }
  return std::string(trimmed(names[at]));
}

}  // namespace

std::string to_text(const std::vector<GpuReading>& readings) {
  std::string text;
  for (const auto& [use, uuid, mib_of_pid] : readings) {
    text +=
        fmt::format("{} {} {} {} {} ", use.index, use.percent, use.used_mib, use.total_mib, uuid);
    for (const auto& [pid, mib] : mib_of_pid) text += fmt::format("{}:{},", pid, mib);
    text += '\n';
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
    GpuReading reading{
        .use = {*index, *percent, *used, *total}, .uuid = std::string(words[4]), .mib_of_pid = {}};
    for (const auto word : split(words[5], ',')) {
      const auto parts = split(word, ':');
      const auto pid = exact_number<int>(parts.front());
      const auto mib = exact_number<std::int64_t>(parts.back());
      if (parts.size() == 2 && pid && mib) reading.mib_of_pid[*pid] = *mib;
    }
    readings.push_back(std::move(reading));
  }
  return readings;
}

std::optional<link::GpuUse> gpu_of_worker(const std::vector<GpuReading>& readings, int pid,
                                          const std::optional<std::string>& visible,
                                          LocalRank local_rank) {
  const GpuReading* own = nullptr;
  for (const GpuReading& each : readings) {
    const auto its = each.mib_of_pid.find(pid);
    if (its == each.mib_of_pid.end()) continue;
    if (own == nullptr || its->second > own->mib_of_pid.at(pid)) own = &each;
  }
  if (own != nullptr) return own->use;
  const auto name = expected_device(visible, static_cast<std::size_t>(local_rank.value));
  // CUDA accepts the beginning of a UUID, too.
  const auto expected = std::ranges::find_if(readings, [&](const GpuReading& each) {
    return name == std::to_string(each.use.index) ||
           (name.starts_with("GPU-") && each.uuid.starts_with(name));
  });
  const bool is_of_unknown = expected != readings.end() && expected->mib_of_pid.empty() &&
                             expected->use.used_mib >= used_mib_min;
  return is_of_unknown ? std::optional(expected->use) : std::nullopt;
}

}  // namespace cpprun
