// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Help text, manual page and shell completions, generated from a program's declaration, so that
// they cannot disagree with the parser.

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/command_line.h"

namespace cpprun {

// --help, --version, --print-completion and --print-man.
void add_page_flags(std::vector<FlagFacts>& flags);

// What these flags print; nullopt if none was typed.
std::optional<std::string> requested_page(const ProgramFacts& program, const TypedWords& words,
                                          std::string_view version);

inline constexpr std::size_t help_line_max = 100;  // columns; longer lines are wrapped

// The usage line and what the program does.
std::string help_start(const ProgramFacts& program);
// A flag with its help, in one or more lines; or the wanted flags, below the names of their groups.
std::string flag_line(const FlagFacts& flag, std::size_t line_max = help_line_max);
std::string flag_lines(const std::vector<FlagFacts>& flags,
                       const std::function<bool(const FlagFacts&)>& wanted,
                       std::size_t line_max = help_line_max);

// Of the command, or of the whole program.
std::string help_page(const ProgramFacts& program, const CommandFacts* command);

// A page for man(1) or man(8), in man(7) macros.
std::string manual_page(const ProgramFacts& program, std::string_view version);

inline constexpr std::array<std::string_view, 4> completed_shells = {"bash", "zsh", "fish", "tcsh"};

// A script to source in one of these shells; nullopt for any other. It contains only texts of the
// declaration. Names of jobs, hosts and files are data: they are filtered and quoted, and no shell
// expands or runs them.
std::optional<std::string> completion_script(std::string_view shell, const ProgramFacts& program);

}  // namespace cpprun
