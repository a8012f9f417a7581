// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "proto/link/bounds.h"
#include "proto/text.h"
#include "rendezvous/command_pages.h"

namespace cpprun {

FlagFacts& add_flag(std::vector<FlagFacts>& flags, std::string_view names, std::string_view value,
                    std::string_view help, TakeValue take) {
  auto& flag = flags.emplace_back();
  if (!names.starts_with("--")) {
    flag.letter = names[1];
    names.remove_prefix(std::string_view("-x,").size());
  }
  flag.name = names.substr(2);
  flag.value = value;
  flag.help = help;
  flag.take = std::move(take);
  return flag;
}

TakeValue switch_into(bool& target, bool on) {
  return [&target, on](const std::string& text) -> Result<void> {
    const auto value = switch_value(text);
    if (!value) return failure(fmt::format("={} is neither true nor false", plain_line(text)));
    target = *value == on;
    return {};
  };
}

TakeValue size_into(std::uint64_t& target) {
  return [&target](const std::string& text) -> Result<void> {
    const auto bytes = byte_size(text);
    if (!bytes) {
      return failure(fmt::format(": \"{}\" is not a number of bytes, such as 500000, 64M or 4GiB",
                                 plain_line(text, bounds::name_shown_bytes_max)));
    }
    target = *bytes;
    return {};
  };
}

Result<std::uint64_t> number_within(const std::string& text, NumberRange range) {
  const auto number = exact_number<std::uint64_t>(text);
  if (number && *number >= range.lowest && *number <= range.highest) return *number;
  return failure(fmt::format(": \"{}\" is not a whole number from {} to {}",
                             plain_line(text, bounds::name_shown_bytes_max), range.lowest,
                             range.highest));
}

std::optional<bool> yes_or_no(std::string_view text) {
  for (const std::string_view yes : {"1", "true", "t", "yes", "y"}) {
    if (is_alike(text, yes)) return true;
  }
  for (const std::string_view no : {"0", "false", "f", "no", "n"}) {
    if (is_alike(text, no)) return false;
  }
  return std::nullopt;
}

std::optional<bool> switch_value(std::string_view text) {
  if (is_alike(text, "on") || is_alike(text, "enable")) return true;
  if (is_alike(text, "off") || is_alike(text, "disable")) return false;
  return yes_or_no(text);
}

// --- the words -----------------------------------------------------------------------------------

namespace {

constexpr std::string_view empty_hint =
    "empty value\n  hint: check that the shell variable is set, or leave it out";

// Whether a word of a launcher in the place of a value is itself a flag. Negative numbers are
// values.
bool looks_like_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !std::isdigit(static_cast<unsigned char>(word[1])) &&
         word[1] != '.';
}

class WordReader {
 public:
  WordReader(const ProgramFacts& program, const std::vector<std::string>& words)
      : program_(program), words_(words) {}

  TypedWords read() {
    bool flags_ended = false;
    while (next_ < words_.size()) {
      const auto& word = words_[next_++];
      if (flags_ended || word.size() < 2 || word[0] != '-') {
        take_word(word, flags_ended);
      } else if (word == "--") {
        flags_ended = true;
      } else if (word.starts_with("--")) {
        take_long(word);
      } else {
        take_letters(word);
      }
    }
    return std::move(result_);
  }

 private:
  // Calls `look` with the flags that can be used here until it returns true.
  template <class Look>
  void for_each_flag(const Look& look) const {
    for (const auto* flags :
         {result_.command ? &result_.command->flags : nullptr, &program_.flags}) {
      if (flags != nullptr && std::ranges::any_of(*flags, look)) return;
    }
  }

  // The flags that a long spelling may mean: an exact match, else all with that prefix.
  std::vector<const FlagFacts*> candidates(std::string_view typed) const {
    const auto name = program_.launches_script ? flag_name(typed) : std::string(typed);
    std::vector<const FlagFacts*> found;
    bool is_exact = false;
    for_each_flag([&](const FlagFacts& flag) {
      is_exact = flag.name == name;
      if (is_exact) found = {&flag};
      if (!is_exact && program_.launches_script && flag.name.starts_with(name)) {
        found.push_back(&flag);
      }
      return is_exact;
    });
    // Where torchrun resolves a prefix to one of its own flags, so does cpprun.
    if (found.size() > 1) std::erase_if(found, [](const FlagFacts* each) { return each->yields; });
    return found;
  }

  const FlagFacts* by_letter(char letter) const {
    const FlagFacts* found = nullptr;
    for_each_flag([&](const FlagFacts& flag) {
      if (flag.letter == letter) found = &flag;
      return found != nullptr;
    });
    return found;
  }

  // Whether the word names a flag, so that it is hardly meant as a value.
  bool is_flag(const std::string& word) const {
    if (program_.launches_script) return looks_like_flag(word);
    const auto is_meant = [spelled = word.substr(0, word.find('='))](const FlagFacts& flag) {
      return spelled == "--" + flag.name ||
             (flag.letter != 0 && spelled == fmt::format("-{}", flag.letter));
    };
    return std::ranges::any_of(program_.flags, is_meant) ||
           std::ranges::any_of(program_.commands, [&](const CommandFacts& command) {
             return std::ranges::any_of(command.flags, is_meant);
           });
  }

  void take_word(const std::string& word, bool after_dashes) {
    if (program_.launches_script) return take_script(word, after_dashes);
    if (word.empty()) return report_error("argument {}: {}", next_, empty_hint);
    if (result_.command == nullptr && !program_.commands.empty()) {
      const auto command = std::ranges::find_if(program_.commands, [&](const CommandFacts& each) {
        return word == each.name || word == each.alias;
      });
      if (command == program_.commands.end()) return refuse_word(word);
      result_.command = &*command;
      return;
    }
    const auto places = result_.command ? result_.command->subjects.size() : 0;
    if (result_.arguments.size() == places) return refuse_word(word);
    result_.arguments.push_back(word);
  }

  void take_script(const std::string& word, bool after_dashes) {
    result_.script = word;
    // torchrun drops a "--" after the script unless one came before it.
    if (!after_dashes && next_ < words_.size() && words_[next_] == "--") ++next_;
    result_.arguments.assign(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end());
    next_ = words_.size();
  }

  void take_long(const std::string& word) {
    const auto equals = word.find('=');
    const bool has_value = equals != std::string::npos;
    const auto spelled = word.substr(0, equals);
    const auto found = candidates(std::string_view(spelled).substr(2));
    if (found.empty()) return refuse_flag(spelled, has_value);
    if (found.size() > 1) {
      std::vector<std::string> names;
      for (const auto* flag : found) names.push_back(fmt::format("--{}", flag->name));
      return report_error("{} is ambiguous: {}\n  hint: use the full name", spelled,
                          fmt::join(names, " or "));
    }
    const auto& flag = *found.front();
    if (!has_value) return take_value(flag, spelled);
    if (!flag.takes_value() && (program_.launches_script || !flag.take)) {
      return report_error("--{} takes no value\n  hint: remove \"{}\"", flag.name,
                          word.substr(equals));
    }
    keep(flag, spelled, word.substr(equals + 1));
  }

  // Short flags can be combined if they take no value; a value can directly follow its flag.
  void take_letters(const std::string& word) {
    for (std::size_t at = 1; at < word.size(); ++at) {
      const auto spelled = fmt::format("-{}", word[at]);
      const auto* flag = by_letter(word[at]);
      const bool is_whole = at == 1 && word.size() > 2 && !program_.launches_script;
      if (flag == nullptr) return refuse_flag(is_whole ? word : spelled, true);
      if (flag->takes_value() && at + 1 < word.size()) {
        const auto value = word.substr(at + 1);
        return keep(*flag, spelled, value.starts_with('=') ? value.substr(1) : value);
      }
      take_value(*flag, spelled);
    }
  }

  void take_value(const FlagFacts& flag, const std::string& spelled) {
    if (!flag.takes_value()) return keep(flag, spelled, "true");
    if (!flag.alone.empty()) return keep(flag, spelled, flag.alone);
    const bool is_last = next_ == words_.size();
    if (!is_last && !is_flag(words_[next_])) return keep(flag, spelled, words_[next_++], true);
    if (is_last || program_.launches_script) {
      return report_error("{0} needs a value: {0}={1}", spelled, flag.value);
    }
    report_error("{0}: no value before {1}\n  hint: give {0} its value, as in {0}=VALUE", spelled,
                 shown(words_[next_]));
  }

  void keep(const FlagFacts& flag, const std::string& spelled, const std::string& value,
            bool is_apart = false) {
    // A launcher takes values from files and variables, too, and checks all of them later.
    if (value.empty() && !program_.launches_script) {
      return report_error("{}: {}", spelled, empty_hint);
    }
    result_.typed.push_back({&flag, spelled, value, is_apart});
  }

  // If a known flag was probably meant and takes a value, the next word is that value and not an
  // argument.
  void refuse_flag(const std::string& spelled, bool has_value) {
    std::vector<std::string> names;
    for_each_flag([&](const FlagFacts& flag) {
      names.push_back("--" + flag.name);
      return false;
    });
    const auto full = spelled.starts_with("--") ? spelled : "-" + spelled;
    const auto* const near = spelled.size() > 2 ? nearest(full, names) : nullptr;
    if (near == nullptr) return report_unknown("unknown flag " + shown(spelled));
    report_error("unknown flag {}\n  hint: did you mean {}?", shown(spelled), *near);
    const bool takes_value = candidates(std::string_view(*near).substr(2)).front()->takes_value();
    const bool is_last = next_ + 1 >= words_.size();
    if (takes_value && !has_value && !is_last && !is_flag(words_[next_])) ++next_;
  }

  void refuse_word(const std::string& word) {
    std::vector<std::string> names;
    if (result_.command == nullptr) {
      for (const auto& command : program_.commands) names.emplace_back(command.name);
    }
    const auto fact = fmt::format("unexpected argument \"{}\"", shown(word));
    const auto* const near = nearest(word, names);
    if (near == nullptr) return report_unknown(fact);
    report_error("{}\n  hint: did you mean {}?", fact, *near);
  }

  void report_unknown(const std::string& fact) {
    report_error("{}\n  hint: {}", fact,
                 program_.launches_script
                     ? fmt::format("{} --help all lists the flags", program_.name)
                     : fmt::format("{} --help lists all flags", program_.name));
  }

  static std::string shown(std::string_view word) {
    return plain_line(word, bounds::name_shown_bytes_max);
  }

  template <class... Values>
  void report_error(fmt::format_string<Values...> text, Values&&... values) {
    result_.diagnostics.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  const ProgramFacts& program_;
  const std::vector<std::string>& words_;
  std::size_t next_ = 0;
  TypedWords result_;
};

}  // namespace

const TypedFlag* TypedWords::last(std::string_view name) const {
  const auto found = std::find_if(typed.rbegin(), typed.rend(),
                                  [&](const TypedFlag& each) { return each.flag->name == name; });
  return found == typed.rend() ? nullptr : &*found;
}

const TypedFlag* TypedWords::swallower() const {
  if (script) return nullptr;
  const TypedFlag* found = nullptr;
  for (const auto& each : typed) {
    if (!each.is_apart) continue;
    const bool is_last = &each == &typed.back();
    const bool is_file = each.value.ends_with(".py") || each.value.ends_with(".sh");
    if (is_file || (is_last && found == nullptr)) found = &each;
  }
  return found;
}

std::string flag_name(std::string_view spelled) {
  std::string name(spelled);
  std::ranges::replace(name, '_', '-');
  return name;
}

TypedWords read_words(const ProgramFacts& program, const std::vector<std::string>& words) {
  return WordReader(program, words).read();
}

// --- the values ----------------------------------------------------------------------------------

Result<void> give_value(const FlagFacts& flag, const std::string& value) {
  if (!flag.allows(value)) {
    return failure(fmt::format("={} is not one of {}",
                               plain_line(value, bounds::name_shown_bytes_max),
                               fmt::join(flag.choices, ", ")));
  }
  return flag.take ? flag.take(value) : Result<void>{};
}

namespace {

// Passes the value to its flag or argument.
Result<void> give(const FlagFacts& flag, const std::string& spelled, const std::string& value) {
  const auto taken = give_value(flag, value);
  return taken ? taken : failure(spelled + taken.error().reason);
}

// Gives each typed flag its value.
Result<void> give_flags(const TypedWords& words) {
  for (const auto& typed : words.typed) {
    const auto& flag = *typed.flag;
    const auto spelled = "--" + flag.name;
    if (flag.takes_value() && !flag.may_repeat && words.last(flag.name) != &typed) {
      return failure(spelled + " is given twice\n  hint: remove one of them");
    }
    if (auto given = give(flag, spelled, typed.value); !given) return given;
  }
  for (const auto& typed : words.typed) {
    for (const auto& name : typed.flag->needs) {
      if (words.last(name) != nullptr) continue;
      return failure(fmt::format("--{} requires --{}", typed.flag->name, name));
    }
    for (const auto& name : typed.flag->excludes) {
      if (words.last(name) == nullptr) continue;
      return failure(fmt::format("--{} and --{} exclude each other\n  hint: use only one",
                                 typed.flag->name, name));
    }
  }
  return {};
}

// Gives the command its arguments.
Result<void> give_arguments(const ProgramFacts& program, const TypedWords& words) {
  if (program.commands.empty()) return {};
  if (words.command == nullptr) return failure("A subcommand is required");
  const auto& subjects = words.command->subjects;
  for (std::size_t at = 0; at < subjects.size(); ++at) {
    if (at < words.arguments.size()) {
      if (!subjects[at].allows(words.arguments[at])) {
        return failure(fmt::format("unexpected argument \"{}\"\n  hint: use {}",
                                   plain_line(words.arguments[at], bounds::name_shown_bytes_max),
                                   fmt::join(subjects[at].choices, " or ")));
      }
      const auto given = give(subjects[at], subjects[at].name, words.arguments[at]);
      if (!given) return given;
    } else if (subjects[at].is_required) {
      return failure(subjects[at].name + " is required");
    }
  }
  for (const auto& flag : words.command->flags) {
    if (!flag.is_required || words.last(flag.name) != nullptr) continue;
    return failure(fmt::format("--{} is required", flag.name));
  }
  return {};
}

}  // namespace

std::optional<CommandLineEnd> read_words_into(const ProgramFacts& program, int argc,
                                              const char* const* argv, std::string_view version,
                                              TypedWords& chosen) {
  chosen = read_words(program, {argv + std::min(argc, 1), argv + argc});
  if (auto page = requested_page(program, chosen, version)) {
    return CommandLineEnd{0, *std::move(page)};
  }
  std::string error;
  if (!chosen.diagnostics.empty()) {
    error = chosen.diagnostics.front();
  } else if (const auto flags = give_flags(chosen); !flags) {
    error = flags.error().reason;
  } else if (const auto arguments = give_arguments(program, chosen); !arguments) {
    error = arguments.error().reason;
  } else {
    return std::nullopt;
  }
  if (error.find("\n  hint: ") == std::string::npos) {
    error += fmt::format("\n  hint: {} --help lists all flags", program.name);
  }
  return CommandLineEnd{usage_error, fmt::format("{}: error: {}\n", program.name, error)};
}

}  // namespace cpprun
