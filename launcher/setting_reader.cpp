#include "launcher/setting_reader.h"

#include <charconv>

#include "proto/plain_text.h"

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

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(between);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text = text.substr(at + 1);
  }
}

std::optional<int> whole_number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace cpprun
