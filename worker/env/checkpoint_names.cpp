// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/checkpoint_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "proto/text.h"

namespace cpprun {
namespace {

constexpr std::string_view beginning = "checkpoint-";
constexpr std::string_view ending = ".safetensors";

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("{}{:012}{}", beginning, step, ending);
}

std::optional<std::int64_t> checkpoint_step(std::string_view name) {
  if (!name.starts_with(beginning) || !name.ends_with(ending)) return std::nullopt;
  if (name.size() <= beginning.size() + ending.size()) return std::nullopt;
  name.remove_prefix(beginning.size());
  name.remove_suffix(ending.size());
  const auto step = exact_number<std::int64_t>(name);
  return step && *step >= 0 ? step : std::nullopt;
}

std::vector<std::int64_t> checkpoint_steps(const std::vector<std::string>& names) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names) {
    if (const auto step = checkpoint_step(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

std::vector<std::string> superfluous(const std::vector<std::string>& names, std::int64_t saved_step,
                                     int keep) {
  std::vector<std::string> gone;
  int kept = 0;
  for (const std::int64_t step : checkpoint_steps(names)) {
    if (step <= saved_step && ++kept > keep) gone.push_back(checkpoint_name(step));
  }
  for (const std::string& name : names) {
    const bool ours = name.starts_with(beginning);
    if (ours && name.find(std::string(ending) + ".tmp-") != std::string::npos) gone.push_back(name);
  }
  return gone;
}

}  // namespace cpprun
