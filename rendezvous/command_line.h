// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Command-line parsing for cpprund and cpprunctl. CLI11 finds the flags. This file adds the rules
// that hold for every option and positional: no value is empty, a flag is never taken as the value
// of another flag, numbers are decimal digits within a range, and an unknown flag gets a
// suggestion.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cpprun {

inline constexpr int usage_error = 2;  // exit code

// Parsing ended without anything to run: the text is the requested output (exit code 0) or an
// error.
struct CommandLineEnd {
  int exit_code = 0;
  std::string text;
};

// Parses the arguments into the options declared on `app`, whose name is the program's. Returns
// nothing on success.
std::optional<CommandLineEnd> read_words_into(CLI::App& app, int argc, const char* const* argv);

struct NumberRange {
  std::uint64_t lowest = 0;
  std::uint64_t highest = 0;
};
inline constexpr NumberRange any_port{0, 65'535};  // 0: the system picks one

// "-f", "--follow": how a flag can be written.
std::vector<std::string> spellings_of(const CLI::Option& option);

using TakeNumber = std::function<void(std::uint64_t)>;
// Declares a flag that takes a whole number.
CLI::Option* add_number(CLI::App& app, const char* names, TakeNumber take, NumberRange range,
                        const char* help);
// Declares a flag that takes a size in bytes, such as 500000, 64M or 4GiB.
CLI::Option* add_size(CLI::App& app, const char* names, TakeNumber take, const char* help);

}  // namespace cpprun
