// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

std::string shown(std::string_view word) {
  return plain_line(word, bounds::name_shown_bytes_max);
}

CommandLineEnd invalid_usage(const CLI::App& app, const std::string& fact,
                             const std::string& hint) {
  return {usage_error, fmt::format("{}: error: {}\n  hint: {}\n", app.get_name(), fact, hint)};
}

std::string help_hint(const CLI::App& app) {
  return app.get_name() + " --help lists all flags";
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> all{&app};
  for (const auto* each : app.get_subcommands({})) all.push_back(each);
  return all;
}

// The option that `word` names, with or without "=VALUE".
const CLI::Option* option_named(const CLI::App& app, std::string_view word) {
  if (!word.starts_with('-')) return nullptr;
  const std::string name(word.substr(0, word.find('=')));
  for (const auto* command : commands_of(app)) {
    if (const auto* option = command->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

bool takes_value(const CLI::App& app, std::string_view word) {
  const auto* option = option_named(app, word);
  return option != nullptr && option->get_items_expected_max() > 0;
}

// CLI11 takes the next word as the value of "--flag=", and any word, even a flag, as the value of
// "--flag". This function rejects both.
std::optional<CommandLineEnd> misplaced_value(const CLI::App& app,
                                              const std::vector<std::string_view>& words) {
  const std::string empty_hint = "check that the shell variable is set, or leave it out";
  for (std::size_t at = 0; at < words.size(); ++at) {
    const auto word = words[at];
    const bool is_value = at > 0 && takes_value(app, words[at - 1]) &&
                          words[at - 1].find('=') == std::string_view::npos;
    if (word.empty()) {
      const auto subject = is_value ? shown(words[at - 1]) : fmt::format("argument {}", at + 1);
      return invalid_usage(app, subject + ": empty value", empty_hint);
    }
    if (word.ends_with('=') && word.find('=') == word.size() - 1 &&
        option_named(app, word) != nullptr) {
      return invalid_usage(app, shown(word.substr(0, word.size() - 1)) + ": empty value",
                           empty_hint);
    }
    if (is_value && option_named(app, word) != nullptr) {
      return invalid_usage(app,
                           fmt::format("{}: no value before {}", shown(words[at - 1]), shown(word)),
                           fmt::format("give {} its value, as in {}=VALUE", shown(words[at - 1]),
                                       shown(words[at - 1])));
    }
  }
  return std::nullopt;
}

CommandLineEnd unknown(const CLI::App& app, const std::string& word) {
  const bool is_flag = word.starts_with('-');
  const auto typed = word.substr(0, word.find('='));
  std::vector<std::string> names;
  if (is_flag) {
    auto commands = commands_of(app);
    const auto chosen = app.get_subcommands();
    if (!chosen.empty()) commands = {&app, chosen.front()};
    for (const auto* command : commands) {
      for (const auto* option : command->get_options()) {
        for (const auto& name : option->get_lnames()) names.push_back("--" + name);
      }
    }
  } else if (app.get_subcommands().empty()) {
    for (const auto* command : app.get_subcommands({})) names.push_back(command->get_name());
  }
  const auto fact = is_flag ? fmt::format("unknown flag {}", shown(typed))
                            : fmt::format("unexpected argument \"{}\"", shown(word));
  const auto* const near = nearest(typed, names);
  return invalid_usage(app, fact,
                       near != nullptr ? fmt::format("did you mean {}?", *near) : help_hint(app));
}

// "--port=N", the help, and the default. CLI11's own also prints the validators and which flags
// exclude each other.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    constexpr std::size_t column = 34;
    constexpr std::size_t line_max = 100;
    std::string help = option->get_description();
    std::string line = "  " + (is_positional ? option->get_name(true) : spelled(*option));
    const std::string choices = choices_of(*option);
    if (!choices.empty() && help.find(':') == std::string::npos) help += ": " + choices;
    const std::string standard = option->get_default_str();
    if (!standard.empty() && help.find("default") == std::string::npos) {
      help += fmt::format(" (default: {})", standard);
    }
    if (line.size() + 2 > column) line += '\n' + std::string(column - 1, ' ');
    line.resize(std::max(line.size(), column - 1), ' ');
    std::string text;
    for (const std::string_view word : split(help, ' ')) {
      const auto width = line.size() - (line.rfind('\n') + 1);
      if (width + 1 + word.size() > line_max) {
        text += line + '\n';
        line = std::string(column - 1, ' ');
      }
      line += ' ';
      line += word;
    }
    return text + line + '\n';
  }

 private:
  static std::string spelled(const CLI::Option& option) {
    std::string text = fmt::format("{}", fmt::join(spellings_of(option), ", "));
    if (option.get_items_expected_max() == 0) return text;
    const std::string type = option.get_type_name();  // of a set of words: "TEXT:{a,b}"
    const std::string value = choices_of(option).empty() ? type.substr(0, type.find(':')) : "WORD";
    return text + "=" + value;
  }
  static std::string choices_of(const CLI::Option& option) {
    const std::string type = option.get_type_name();
    const auto begin = type.find('{');
    const auto end = type.find('}');
    if (begin == std::string::npos || end == std::string::npos) return {};
    const std::string words = type.substr(begin + 1, end - begin - 1);
    return fmt::format("{}", fmt::join(split(words, ','), ", "));
  }
};

}  // namespace

std::vector<std::string> spellings_of(const CLI::Option& option) {
  std::vector<std::string> all;
  for (const auto& name : option.get_snames()) all.push_back("-" + name);
  for (const auto& name : option.get_lnames()) all.push_back("--" + name);
  return all;
}

std::optional<CommandLineEnd> read_words_into(CLI::App& app, int argc, const char* const* argv) {
  const auto formatter = std::make_shared<HelpFormatter>();
  app.formatter(formatter);
  for (auto* command : app.get_subcommands([](CLI::App*) { return true; })) {
    command->formatter(formatter);
  }
  const std::vector<std::string_view> words(argv + std::min(argc, 1), argv + argc);
  if (auto wrong = misplaced_value(app, words)) return wrong;
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    // CLI11 reports a missing command before the unknown word in its place. Report the unknown word
    // first.
    const auto left = app.remaining(true);
    if (error.get_exit_code() == 0) {
      std::ostringstream out;
      (void)app.exit(error, out, out);
      return CommandLineEnd{0, out.str()};
    }
    if (!left.empty()) return unknown(app, left.front());
    return invalid_usage(app, error.what(), help_hint(app));
  }
}

CLI::Option* add_number(CLI::App& app, const char* names, TakeNumber take, NumberRange range,
                        const char* help) {
  const auto read = [take = std::move(take), range, names](const CLI::results_t& texts) {
    const auto number = exact_number<std::uint64_t>(texts.front());
    if (!number || *number < range.lowest || *number > range.highest) {
      throw CLI::ValidationError(
          names, fmt::format("\"{}\" is not a whole number from {} to {}", shown(texts.front()),
                             range.lowest, range.highest));
    }
    take(*number);
    return true;
  };
  return app.add_option(names, CLI::callback_t(read), help)->type_name("N");
}

CLI::Option* add_size(CLI::App& app, const char* names, TakeNumber take, const char* help) {
  const auto read = [take = std::move(take), names](const CLI::results_t& texts) {
    const auto bytes = byte_size(texts.front());
    if (!bytes) {
      throw CLI::ValidationError(
          names, fmt::format("\"{}\" is not a number of bytes, such as 500000, 64M or 4GiB",
                             shown(texts.front())));
    }
    take(*bytes);
    return true;
  };
  return app.add_option(names, CLI::callback_t(read), help)->type_name("SIZE");
}

}  // namespace cpprun
