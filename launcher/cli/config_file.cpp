// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/cli/cli.h"
#include "launcher/cli/declaration.h"
#include "launcher/cli/flags.h"
#include "launcher/cli/settings.h"
#include "proto/text.h"

namespace cpprun {

namespace {

// A file of another format, such as a script, has an error on every line.
constexpr std::size_t diagnostics_told_max = 8;
constexpr std::size_t key_bytes_shown_max = 40;

bool is_text(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char byte) {
    return byte < ' ' && byte != '\n' && byte != '\r' && byte != '\t';
  });
}

bool is_quote(char byte) {
  return byte == '"' || byte == '\'';
}

// Removes a trailing comment; a # inside quotes does not start one.
std::string_view without_comment(std::string_view line) {
  char open = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (open == 0 && line[at] == '#') return trimmed(line.substr(0, at));
    if (open == 0 && is_quote(line[at])) {
      open = line[at];
    } else if (line[at] == open) {
      open = 0;
    }
  }
  return trimmed(line);
}

// Whether it is a single quoted string: "\"abc\"" is; "\"abc" and "\"a\" \"b\"" are not.
bool is_quoted(std::string_view text) {
  return text.size() >= 2 && is_quote(text.front()) &&
         text.find(text.front(), 1) == text.size() - 1;
}

std::string_view unquoted(std::string_view text) {
  return is_quoted(text) ? text.substr(1, text.size() - 2) : text;
}

// The value of a flag: a list becomes its elements with commas between them.
std::string value_of(std::string_view raw) {
  if (!raw.starts_with('[') || !raw.ends_with(']')) return std::string(unquoted(raw));
  std::string value;
  std::string_view rest = trimmed(raw.substr(1, raw.size() - 2));
  while (!rest.empty()) {
    const auto quote = is_quote(rest.front()) ? rest.find(rest.front(), 1) : std::string_view::npos;
    const auto comma = rest.find(',', quote == std::string_view::npos ? 0 : quote);
    if (!value.empty()) value += ',';
    value += unquoted(trimmed(rest.substr(0, comma)));
    rest = comma == std::string_view::npos ? "" : trimmed(rest.substr(comma + 1));
  }
  return value;
}

class FileReader {
 public:
  FileReader(const std::string& path, std::string_view text, Declaration& declaration)
      : name_(plain_line(path)), lines_(split(text, '\n')), declaration_(declaration) {}

  // Returns the errors in the file, one sentence each.
  std::vector<std::string> read() {
    while (next_ < lines_.size()) {
      const auto line = without_comment(lines_[next_++]);
      // INI files use ; for comments.
      if (!line.empty() && line.front() != ';') read_line(line, next_);
    }
    return std::move(diagnostics_);
  }

 private:
  void read_line(std::string_view line, std::size_t number) {
    if (line.front() == '[') {
      return report_error(number,
                          "sections are not supported\n  hint: write each flag as name = value");
    }
    const auto equals = line.find('=');
    auto key = trimmed(line.substr(0, equals));
    if (is_quoted(key)) key = key.substr(1, key.size() - 2);
    if (equals == std::string_view::npos) {
      return report_error(number, fmt::format("\"{}\" does not have the form name = value",
                                              plain_line(key, key_bytes_shown_max)));
    }
    const auto raw = whole_value(trimmed(line.substr(equals + 1)));
    const auto* flag = known(key, number);
    if (flag == nullptr) return;
    const bool opened = !raw.empty() && is_quote(raw.front()) && !is_quoted(raw);
    if (opened || (raw.starts_with('[') && raw.find(']') == std::string::npos)) {
      return report_error(number, fmt::format("{}: the value has no closing {}", flag->name,
                                              opened ? raw.front() : ']'));
    }
    declaration_.tell(*flag, value_of(raw), SettingOrigin::file,
                      fmt::format("{}:{}: {}", name_, number, flag->name));
  }

  // A list may continue on the following lines.
  std::string whole_value(std::string_view first) {
    std::string value(first);
    if (!value.starts_with('[')) return value;
    while (value.find(']') == std::string::npos && next_ < lines_.size()) {
      value += without_comment(lines_[next_++]);
    }
    return value;
  }

  // The flag of that name; null after an error if it may not be used here.
  const FlagFacts* known(std::string_view key, std::size_t number) {
    const auto name = flag_name(key);
    const auto* flag = declaration_.find(name);
    if (flag == nullptr) {
      report_error(number, fmt::format("unknown key \"{}\"\n  hint: {}",
                                       plain_line(key, key_bytes_shown_max), hint(name)));
      return nullptr;
    }
    if (!flag->in_file) {
      report_error(number,
                   fmt::format("{} is allowed only on the command line, not in a file", name));
      return nullptr;
    }
    const auto [first, is_new] = line_of_.emplace(name, number);
    if (is_new) return flag;
    report_error(number,
                 fmt::format("{} is set twice, first on line {}\n  hint: remove one of them", name,
                             first->second));
    return nullptr;
  }

  // A hint to write out the name. Prefixes are not accepted in files: a unique prefix may become
  // ambiguous in a later version.
  std::string hint(const std::string& beginning) const {
    const FlagFacts* found = nullptr;
    for (const auto& flag : declaration_.facts()) {
      if (beginning.empty() || !flag.name.starts_with(beginning)) continue;
      if (found != nullptr) return "use the full name of a flag";
      found = &flag;
    }
    if (found != nullptr) return fmt::format("write {}", found->name);
    return "use the name of a flag; cpprun --help all lists them";
  }

  void report_error(std::size_t number, std::string_view what) {
    diagnostics_.push_back(fmt::format("{}:{}: {}", name_, number, what));
  }

  std::string name_;
  std::vector<std::string_view> lines_;
  std::size_t next_ = 0;
  Declaration& declaration_;
  std::map<std::string, std::size_t> line_of_;  // the line of each key
  std::vector<std::string> diagnostics_;
};

}  // namespace

void tell_config_file(const std::string& path, const std::string& text, Declaration& declaration,
                      Diagnostics& diagnostics) {
  if (!is_text(text)) {
    diagnostics.add(Diagnostics::before_flags,
                    fmt::format("{} is not a text file; --config expects lines such as nnodes = 2",
                                plain_line(path)));
    return;
  }
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  std::string_view lines = text;
  if (lines.starts_with(byte_order_mark)) lines.remove_prefix(byte_order_mark.size());
  const auto wrong = FileReader(path, lines, declaration).read();
  for (std::size_t at = 0; at < wrong.size() && at < diagnostics_told_max; ++at) {
    diagnostics.add(Diagnostics::before_flags, wrong[at]);
  }
  if (wrong.size() > diagnostics_told_max) {
    diagnostics.add(Diagnostics::before_flags,
                    fmt::format("{}: {} more errors like these; check that this is the right file",
                                plain_line(path), wrong.size() - diagnostics_told_max));
  }
}

RulesFile read_rules_file(const std::string& path, const std::string& text) {
  Flags flags;
  Declaration declaration(flags);
  Diagnostics diagnostics;
  tell_config_file(path, text, declaration, diagnostics);
  declaration.resolve(diagnostics);
  Config config;
  const Environment environment;
  SettingReader reader(flags, environment, diagnostics, config.notes);
  const auto no_file = [](const std::string&) -> Result<std::string> { return failure("none"); };
  read_ending_settings(reader, no_file, config);
  return {.rules = config.restarts, .diagnostics = diagnostics.sentences()};
}

}  // namespace cpprun
