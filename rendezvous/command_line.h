// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How cpprund and cpprunctl read their words: CLI11 finds the flags, and the rules that hold for
// every option and positional are here. No value is empty, no flag is the value of another one,
// numbers are decimal digits within a range, and an unknown flag gets a suggestion.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cpprun {

inline constexpr int usage_error = 2;  // the exit code

// Nothing to run: a text that was asked for (exit code 0), or what is wrong with the words.
struct CommandLineEnd {
  int exit_code = 0;
  std::string text;
};

// Reads the words into what was declared. Gives nothing where they are in order. `app` has the name
// of the program.
std::optional<CommandLineEnd> read_words_into(CLI::App& app, int argc, const char* const* argv);

struct NumberRange {
  std::uint64_t lowest = 0;
  std::uint64_t highest = 0;
};
inline constexpr NumberRange any_port{0, 65'535};  // 0: the system picks one

using TakeNumber = std::function<void(std::uint64_t)>;
// Declares a flag of a whole number.
CLI::Option* add_number(CLI::App& app, const char* names, TakeNumber take, NumberRange range,
                        const char* help);
// Declares a flag of a number of bytes, as 500000, 64M or 4GiB.
CLI::Option* add_size(CLI::App& app, const char* names, TakeNumber take, const char* help);

}  // namespace cpprun
