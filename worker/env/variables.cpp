// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/variables.h"

#include <fmt/format.h>

#include "proto/text.h"

namespace cpprun {

bool Variables::has(std::string_view name) const {
  const auto found = environment_.find(std::string(name));
  // An empty value counts as unset: shells and batch systems clear variables that way.
  return found != environment_.end() && !found->second.empty();
}

std::string Variables::text(std::string_view name) const {
  const auto found = environment_.find(std::string(name));
  return found == environment_.end() ? std::string() : found->second;
}

std::optional<int> Variables::number(std::string_view name, int least, int most) {
  if (!has(name)) return std::nullopt;
  const std::string value = text(name);
  const auto parsed = exact_number<int>(value);
  if (parsed && least <= *parsed && *parsed <= most) return parsed;
  add_mistake(fmt::format("{}={} is not a whole number from {} to {}", name, value, least, most));
  return std::nullopt;
}

int Variables::number_or(std::string_view name, int least, int most, int fallback) {
  return number(name, least, most).value_or(fallback);
}

int Variables::required(std::string_view name, int least, int most, std::string_view cure) {
  if (!has(name)) {
    add_mistake(fmt::format("{} is not set: {}", name, cure));
    return least;
  }
  return number(name, least, most).value_or(least);
}

void Variables::add_mistake(std::string mistake) {
  diagnostics_.push_back(std::move(mistake));
}

}  // namespace cpprun
