// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The command lines of cpprun, cpprund and cpprunctl: what a program declares about its flags and
// commands, and the parser. Help, manual page and completions are generated from the same
// declaration (command_pages.h). Some rules hold for every flag, so none can miss them: no value is
// empty unless the flag allows it, a flag is never taken as the value of another flag, numbers have
// a range, and an unknown flag gets a suggestion.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"

namespace cpprun {

inline constexpr int usage_error = 2;  // exit code

// Stores the value of a flag. The error continues a sentence that starts with the flag:
// "=x is not a number".
using TakeValue = std::function<Result<void>(const std::string& text)>;

// A flag, or an argument of a command. The texts are literals.
struct FlagFacts {
  std::string name = {};        // without the leading dashes
  char letter = 0;              // the short flag; 0: none
  std::string_view value = {};  // name of the value in the help; empty: it takes none
  std::string_view group = {};  // heading in the help
  std::string_view help = {};   // one line
  TakeValue take = {};          // empty: the caller reads the parsed words itself
  std::string standard = {};    // default value; empty: none, or stated in the help
  std::string alone = {};       // the value of "--flag"; empty: it needs one of its own
  std::vector<std::string_view> choices = {};  // values worth completing
  bool only_choices = false;                   // any other value is an error
  std::vector<std::string> variables = {};     // environment variables; the first that is set wins
  std::vector<std::string_view> needs = {};    // names of flags without which it is an error
  std::vector<std::string_view> excludes = {};
  bool is_required = false;
  bool may_repeat = false;        // the last one wins; otherwise a second one is an error
  bool may_be_empty = false;      // otherwise an empty value is an error
  bool in_file = true;            // cpprun --config FILE may set it
  bool is_launchers_own = false;  // hardly any script has a flag of that name
  bool yields = false;            // a prefix shared with another flag means the other one

  bool takes_value() const { return !value.empty(); }
  bool needs_value() const { return takes_value() && alone.empty(); }
  // Only these values are valid.
  FlagFacts& only(std::vector<std::string_view> values) {
    choices = std::move(values);
    only_choices = true;
    return *this;
  }
  bool allows(std::string_view text) const {
    return !only_choices || std::ranges::find(choices, text) != choices.end();
  }
};

struct CommandFacts {
  std::string_view name = {};
  std::string_view alias = {};  // another name for it; empty: none
  std::string_view help = {};
  std::string_view example = {};
  std::vector<FlagFacts> subjects = {};  // its arguments, in order
  std::vector<FlagFacts> flags = {};     // besides the program's
};

struct ExampleFacts {
  std::string_view purpose;
  std::string_view command;
};

struct ProgramFacts {
  std::string_view name = {};
  int manual_section = 1;
  std::string_view summary = {};   // what it is, for the manual page
  std::string_view synopsis = {};  // what follows the name
  std::string_view about = {};     // first paragraph of the help
  std::string_view help_end = {};
  std::string_view manual_about = {};  // in man(7) macros, like the following two
  std::string_view manual_end = {};    // sections after the flags
  std::span<const ExampleFacts> examples = {};
  std::string_view see_also = {};
  // torchrun's rules: prefixes of flags and underscores are accepted, and the first word that is no
  // flag is a script, which all later words belong to.
  bool launches_script = false;
  std::vector<FlagFacts> flags = {};  // accepted by all commands
  std::vector<CommandFacts> commands = {};
};

// --- the declaration -----------------------------------------------------------------------------

// Adds a flag. `names` is "--reason" or "-o,--output". The reference is valid until the next one.
FlagFacts& add_flag(std::vector<FlagFacts>& flags, std::string_view names, std::string_view value,
                    std::string_view help, TakeValue take);

template <class Text>
TakeValue text_into(Text& target) {  // a string, or an optional one
  return [&target](const std::string& text) -> Result<void> {
    target = text;
    return {};
  };
}
// Sets the target to `on`; "--flag=false" sets it to the opposite.
TakeValue switch_into(bool& target, bool on = true);
// A size in bytes, such as 500000, 64M or 4GiB.
TakeValue size_into(std::uint64_t& target);

struct NumberRange {
  std::uint64_t lowest = 0;
  std::uint64_t highest = 0;
};
inline constexpr NumberRange any_port{0, 65'535};  // 0: the system picks one

// Decimal digits within the range.
Result<std::uint64_t> number_within(const std::string& text, NumberRange range);

// A whole number; seconds for a Duration.
template <class N>
TakeValue number_into(N& target, NumberRange range) {
  return [&target, range](const std::string& text) -> Result<void> {
    const auto number = number_within(text, range);
    if (!number) return failure(number.error().reason);
    if constexpr (std::is_same_v<N, Duration>) {
      target = std::chrono::seconds(*number);
    } else {
      target = static_cast<N>(*number);
    }
    return {};
  };
}

// Whether the text turns a switch on: true, yes, on, 1, or false, no, off, 0. Nothing: neither.
std::optional<bool> switch_value(std::string_view text);
// The same without on, off, enable and disable: torchrun's words.
std::optional<bool> yes_or_no(std::string_view text);

// --- the words -----------------------------------------------------------------------------------

struct TypedFlag {
  const FlagFacts* flag = nullptr;
  std::string spelled;    // as typed, for error messages
  std::string value;      // "true" if the flag takes none and was given none
  bool is_apart = false;  // the value is a separate word
};

struct TypedWords {
  const CommandFacts* command = nullptr;
  std::vector<TypedFlag> typed;  // in order
  std::optional<std::string> script;
  std::vector<std::string> arguments;  // of the command, or of the script, verbatim
  std::vector<std::string> diagnostics;

  // The last occurrence of the flag; null: none.
  const TypedFlag* last(std::string_view name) const;
  // The flag whose value is probably the script; null: none.
  const TypedFlag* swallower() const;
};

// Resolves words to flags and arguments. Finds all errors. The result points into `program`.
TypedWords read_words(const ProgramFacts& program, const std::vector<std::string>& words);

// Normalizes underscores: "rdzv_id" becomes "rdzv-id".
std::string flag_name(std::string_view spelled);

// Checks the value and passes it to the flag. The error continues a sentence that starts with the
// flag.
Result<void> give_value(const FlagFacts& flag, const std::string& value);

// Parsing ended without anything to run: the text is the requested output (exit code 0) or an
// error.
struct CommandLineEnd {
  int exit_code = 0;
  std::string text;
};

// Reads the words and passes each value to its flag or argument. `chosen` receives what was typed.
// Returns nothing on success. The first error ends it. --help, --version and the like win over
// errors.
std::optional<CommandLineEnd> read_words_into(const ProgramFacts& program, int argc,
                                              const char* const* argv, std::string_view version,
                                              TypedWords& chosen);

}  // namespace cpprun
