// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/setting_reader.h"

#include <charconv>

#include "proto/plain_text.h"
#include "proto/text.h"

namespace cpprun {

std::string SettingReader::source(std::string_view flag) const {
  const auto* setting = settings_.find(flag);
  return setting == nullptr ? fmt::format("--{}", flag) : setting->source;
}

std::optional<int> SettingReader::number(std::string_view flag, int lowest, int highest) {
  const auto* setting = settings_.find(flag);
  if (setting == nullptr) return std::nullopt;
  const auto value = whole_number(setting->value);
  if (value && *value >= lowest && *value <= highest) return value;
  if (highest == any_count_max) {
    complain("{}={} is not a whole number from {}", setting->source, setting->value, lowest);
  } else {
    complain("{}={} is not a whole number from {} to {}", setting->source, setting->value, lowest,
             highest);
  }
  return std::nullopt;
}

std::optional<std::string> SettingReader::name(std::string_view flag, std::size_t bytes_max) {
  const auto* setting = settings_.find(flag);
  if (setting == nullptr) return std::nullopt;
  const std::string& value = setting->value;
  const std::string plain = plain_line(value);
  if (value.size() > bytes_max) {
    complain("{} has {} bytes; a name of at most {} travels between nodes: give a shorter one",
             setting->source, value.size(), bytes_max);
  } else if (plain != value) {
    // The other nodes would read another name than ours.
    complain(
        "{}={}: where it says \"?\" there is nothing that can be read: a control or format "
        "character, or half a character; give a name of letters",
        setting->source, plain);
  } else {
    return value;
  }
  return std::nullopt;
}

}  // namespace cpprun
