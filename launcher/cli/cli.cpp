// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "launcher/cli/config_file.h"
#include "launcher/cli/declaration.h"
#include "launcher/cli/fanout_settings.h"
#include "launcher/cli/flags.h"
#include "launcher/cli/help.h"
#include "launcher/cli/scheduler_settings.h"
#include "launcher/cli/settings.h"
#include "launcher/scheduler/scheduler_facts.h"
#include "proto/text.h"
#include "rendezvous/logging.h"

namespace cpprun {

namespace {

// The last occurrence of the flag on the command line; null: none.
const TypedFlag* last_typed(const TypedWords& words, std::string_view name) {
  const auto found = std::find_if(words.typed.rbegin(), words.typed.rend(),
                                  [&](const TypedFlag& each) { return each.flag->name == name; });
  return found == words.typed.rend() ? nullptr : &*found;
}

CliText version_text(const CommandLine& line) {
  return {fmt::format("cpprun {}\n", line.version)};
}

// --help and similar flags win over any error.
std::optional<CliText> asked_text(const TypedWords& words, const Declaration& declaration,
                                  const CommandLine& line) {
  const auto& facts = declaration.facts();
  if (last_typed(words, "help") != nullptr) {
    return CliText{help_text(facts, words.script.value_or(""))};
  }
  if (last_typed(words, "version") != nullptr) return version_text(line);
  if (last_typed(words, "print-man") != nullptr) return CliText{manual_page(facts, line.version)};
  if (const auto* shell = last_typed(words, "print-completion")) {
    if (auto script = completion_script(shell->value, facts)) return CliText{std::move(*script)};
  }
  return std::nullopt;
}

// The first of the flag's environment variables that is set and not empty.
const std::string* variable_of(const FlagFacts& flag, const Environment& environment,
                               const std::string*& value) {
  for (const auto& name : flag.variables) {
    value = find_variable(environment, name);
    if (value != nullptr && !value->empty()) return &name;
  }
  return nullptr;
}

void tell_environment(const TypedWords& words, const Environment& environment,
                      Declaration& declaration, Diagnostics& diagnostics) {
  int place = 0;
  for (const auto& flag : declaration.facts()) {
    const std::string* value = nullptr;
    if (const auto* name = variable_of(flag, environment, value)) {
      if (flag.takes_value() || *value == "1" || *value == "0") {
        declaration.tell(flag, *value, SettingOrigin::environment, *name);
      } else if (last_typed(words, flag.name) == nullptr) {
        diagnostics.add(place, fmt::format("{}={} is neither 1 (on) nor 0 (off)", *name, *value));
      }
    }
    ++place;
  }
}

// Reads the file given by --config, or else by CPPRUN_CONFIG.
void tell_file(const TypedWords& words, const CommandLine& line, Declaration& declaration,
               Diagnostics& diagnostics) {
  const auto* flag = declaration.find("config");
  const auto* typed = last_typed(words, flag->name);
  const std::string* path = typed == nullptr ? nullptr : &typed->value;
  const auto* name = typed == nullptr ? variable_of(*flag, line.environment, path) : nullptr;
  if ((typed == nullptr && name == nullptr) || path->empty()) return;
  const auto text = line.read_file(*path);
  if (text) return tell_config_file(*path, *text, declaration, diagnostics);
  diagnostics.add(Diagnostics::before_flags,
                  fmt::format("{}={} cannot be read: {}\n  hint: give the path of a text file",
                              typed == nullptr ? *name : "--config", *path, text.error().reason));
}

void tell_words(const TypedWords& words, Declaration& declaration, Diagnostics& diagnostics) {
  for (const auto& mistake : words.diagnostics) diagnostics.add(Diagnostics::before_flags, mistake);
  for (const auto& typed : words.typed) {
    declaration.tell(*typed.flag, typed.flag->takes_value() ? typed.value : "true",
                     SettingOrigin::typed, "--" + typed.flag->name);
  }
}

// Adds errors about the script.
void check_script(const CommandLine& line, const TypedWords& words, const Program& program,
                  Diagnostics& diagnostics) {
  if (const auto* flag = program.script.empty() ? words.swallower() : nullptr) {
    diagnostics.add(
        Diagnostics::after_flags,
        fmt::format(
            "no script given: {} took \"{}\" as its value\n  hint: write {}={} and then the "
            "script",
            flag->spelled, plain_line(flag->value), flag->spelled, flag->flag->value));
  } else if (program.script.empty()) {
    diagnostics.add(Diagnostics::after_flags,
                    "no script given\n  hint: add the script after the flags");
  } else if (!diagnostics.empty()) {
    const auto resolved = resolve_program(program, line.environment, line.probe_file);
    if (!resolved) diagnostics.add(Diagnostics::after_flags, resolved.error().reason);
  }
}

CommandLine without_random_id(CommandLine line) {
  line.random_id.clear();
  return line;
}

// Adds what the console needs besides the flags.
void complete(const Config& config, fanout::Request& request) {
  request.wanted.grace = config.grace;
  request.job.grace_milliseconds = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(config.grace).count());
  request.job.program = {config.program.script};
  request.job.program.insert(request.job.program.end(), config.program.arguments.begin(),
                             config.program.arguments.end());
}

}  // namespace

CliOutcome read_command_line(const CommandLine& line) {
  // Fast path for scripts that check the version at every start: does not declare the flags.
  if (line.words.size() == 1 && line.words.front() == "--version") return version_text(line);
  Flags flags;
  Declaration declaration(flags);
  auto words = read_words(declaration.facts(), line.words);
  if (auto text = asked_text(words, declaration, line)) return std::move(*text);

  // A later source overrides an earlier one.
  Diagnostics diagnostics;
  tell_file(words, line, declaration, diagnostics);
  tell_environment(words, line.environment, declaration, diagnostics);
  tell_words(words, declaration, diagnostics);
  declaration.settle(diagnostics);
  const auto dropped = drop_contradicted(flags);
  std::vector<std::string> taken;
  // With --hosts, the agents get all settings from their console.
  const bool is_console = flags.hosts.given || flags.hostfile.given;
  if (const auto facts = scheduler_facts(line.environment, line.read_file); facts && !is_console) {
    taken = tell_scheduler(*facts, flags, line, declaration, diagnostics);
  }
  declaration.settle(diagnostics);
  auto fan_out = fan_out_request(flags, declaration, line, diagnostics);
  const bool is_dry = is_on(flags.dry_run);
  if (is_on(flags.json) && !is_dry) {
    diagnostics.add(flags.json.place, flags.json.source + " has no effect without --dry-run");
  }
  auto config = config_of(flags, is_dry ? without_random_id(line) : line, diagnostics);
  config.notes.insert(config.notes.begin(), taken.begin(), taken.end());
  config.notes.insert(config.notes.begin(), dropped.begin(), dropped.end());
  config.program.script = words.script.value_or("");
  if (words.script) {
    const auto notes = notes_of_arguments(declaration.facts(), words);
    config.notes.insert(config.notes.end(), notes.begin(), notes.end());
  }
  config.program.arguments = std::move(words.arguments);
  if (!fan_out || config.program.script.empty()) {
    check_script(line, words, config.program, diagnostics);
  }
  if (!diagnostics.empty()) {
    // A dry run writes no files.
    if (is_dry) return CliDiagnostics{diagnostics.sentences()};
    return CliDiagnostics{diagnostics.sentences(), config.logs.report_file,
                          config.logs.events_file};
  }
  if (fan_out) complete(config, *fan_out);
  if (is_dry) return CliDryRun{std::move(config), std::move(fan_out), is_on(flags.json)};
  if (!fan_out) return config;
  return CliFanOut{std::move(config), std::move(*fan_out)};
}

std::string to_text(const CliDiagnostics& diagnostics) {
  std::string text;
  for (const auto& mistake : diagnostics.diagnostics) {
    text += fmt::format("cpprun: {}\n", with_level(LogLevel::error, mistake));
  }
  return text + "cpprun: nothing was started; cpprun --help all lists the flags\n";
}

namespace {

constexpr std::size_t word_bytes_shown_max = 100;
constexpr std::size_t notes_max = 3;  // about script arguments

// Whether an argument in the place of a value is itself a flag. Negative numbers are values.
bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !std::isdigit(static_cast<unsigned char>(word[1])) &&
         word[1] != '.';
}

class WordReader {
 public:
  WordReader(const std::vector<FlagFacts>& flags, const std::vector<std::string>& words)
      : flags_(flags), words_(words) {}

  TypedWords read() {
    while (next_ < words_.size() && !result_.script) {
      const auto& word = words_[next_++];
      if (word == "--") {
        take_script(true);
        break;
      }
      if (word.starts_with("--")) {
        take_long(word);
      } else if (word.size() > 1 && word[0] == '-') {
        take_short(word);
      } else {
        --next_;
        take_script(false);
      }
    }
    return std::move(result_);
  }

 private:
  // The flags that a long spelling may mean: an exact match, else all with that prefix.
  std::vector<const FlagFacts*> candidates(std::string_view typed) const {
    const auto name = flag_name(typed);
    std::vector<const FlagFacts*> found;
    for (const auto& flag : flags_) {
      if (flag.name == name) return {&flag};
      if (flag.name.starts_with(name)) found.push_back(&flag);
    }
    // Where torchrun resolves a prefix to one of its own flags, so does cpprun.
    if (found.size() > 1) std::erase_if(found, [](const FlagFacts* each) { return each->yields; });
    return found;
  }

  const FlagFacts* by_letter(char letter) const {
    for (const auto& flag : flags_) {
      if (flag.letter == letter) return &flag;
    }
    return nullptr;
  }

  void take_script(bool after_dashes) {
    if (next_ == words_.size()) return;
    result_.script = words_[next_++];
    // torchrun drops a "--" after the script unless one came before it.
    if (!after_dashes && next_ < words_.size() && words_[next_] == "--") ++next_;
    result_.arguments.assign(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end());
    next_ = words_.size();
  }

  void take_long(const std::string& word) {
    const auto equals = word.find('=');
    const auto spelled = word.substr(0, equals);
    const auto found = candidates(std::string_view(spelled).substr(2));
    if (found.empty()) return refuse_unknown(spelled, equals != std::string::npos);
    if (found.size() > 1) {
      std::vector<std::string> names;
      for (const auto* flag : found) names.push_back(fmt::format("--{}", flag->name));
      return complain("{} is ambiguous: {}\n  hint: use the full name", spelled,
                      fmt::join(names, " or "));
    }
    if (!found.front()->takes_value() && equals != std::string::npos) {
      return complain("--{} takes no value\n  hint: remove \"{}\"", found.front()->name,
                      word.substr(equals));
    }
    if (equals != std::string::npos) {
      return keep(found.front(), spelled, word.substr(equals + 1));
    }
    take_value(found.front(), spelled);
  }

  void take_short(const std::string& word) {
    // Short flags can be combined if they take no value; a value can directly follow its flag.
    for (std::size_t at = 1; at < word.size(); ++at) {
      const auto spelled = fmt::format("-{}", word[at]);
      const auto* flag = by_letter(word[at]);
      if (flag == nullptr) return refuse_unknown(spelled, true);
      if (flag->takes_value() && at + 1 < word.size()) {
        const auto value = word.substr(at + 1);
        return keep(flag, spelled, value.starts_with('=') ? value.substr(1) : value);
      }
      take_value(flag, spelled);
    }
  }

  void take_value(const FlagFacts* flag, const std::string& spelled) {
    if (!flag->takes_value()) return keep(flag, spelled, "");
    if (next_ == words_.size() || is_flag(words_[next_])) {
      return complain("{} needs a value: {}={}", spelled, spelled, flag->value);
    }
    keep(flag, spelled, words_[next_++]);
    result_.typed.back().is_apart = true;
  }

  // If a known flag was probably meant and takes a value, the next argument is that value and not
  // the script.
  void refuse_unknown(const std::string& spelled, bool has_value) {
    std::vector<std::string> names;
    for (const auto& flag : flags_) names.push_back("--" + flag.name);
    const auto* const near = spelled.starts_with("--") ? nearest(spelled, names) : nullptr;
    if (near == nullptr)
      return complain("unknown flag {}\n  hint: cpprun --help all lists the flags", spelled);
    complain("unknown flag {}\n  hint: did you mean {}?", spelled, *near);
    const bool takes_value = candidates(std::string_view(*near).substr(2)).front()->takes_value();
    const bool is_last = next_ + 1 >= words_.size();
    if (takes_value && !has_value && !is_last && !is_flag(words_[next_])) ++next_;
  }

  void keep(const FlagFacts* flag, const std::string& spelled, const std::string& value) {
    result_.typed.push_back({flag, spelled, value});
  }

  template <class... Values>
  void complain(fmt::format_string<Values...> text, Values&&... values) {
    result_.diagnostics.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  const std::vector<FlagFacts>& flags_;
  const std::vector<std::string>& words_;
  std::size_t next_ = 0;
  TypedWords result_;
};

}  // namespace

std::string flag_name(std::string_view spelled) {
  std::string name(spelled);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
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

std::vector<std::string> notes_of_arguments(const std::vector<FlagFacts>& flags,
                                            const TypedWords& words) {
  std::vector<std::string> notes;
  for (const auto& word : words.arguments) {
    if (!word.starts_with("--")) continue;
    const auto name = flag_name(std::string_view(word).substr(2, word.find('=') - 2));
    const auto flag = std::ranges::find(flags, name, &FlagFacts::name);
    if (flag == flags.end() || !flag->is_launchers_own) continue;
    const auto is_given = [&](const TypedFlag& each) { return each.flag->name == name; };
    if (std::ranges::any_of(words.typed, is_given)) continue;
    notes.push_back(fmt::format("{} comes after {}, so it is passed to the script",
                                plain_line(word, word_bytes_shown_max),
                                plain_line(*words.script, word_bytes_shown_max)));
  }
  if (notes.size() > notes_max) notes.resize(notes_max);
  return notes;
}

TypedWords read_words(const std::vector<FlagFacts>& flags, const std::vector<std::string>& words) {
  return WordReader(flags, words).read();
}

}  // namespace cpprun
