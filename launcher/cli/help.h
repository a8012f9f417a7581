// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The help, the manual page, and what shells complete.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/declaration.h"

namespace cpprun {

// `topic` is "all", a flag, or the first word of a group ("failures"). Anything else, as a script
// that follows --help, gets the short help: the flags that most people use.
std::string help_text(const std::vector<FlagFacts>& flags, std::string_view topic);

// For man(1), in the macros of man(7).
std::string manual_page(const std::vector<FlagFacts>& flags, const std::string& version);

// What a shell needs to complete cpprun's flags and their values as they are typed.

// A script to be sourced by bash, zsh, fish or tcsh; nothing for any other shell.
std::optional<std::string> completion_script(std::string_view shell,
                                             const std::vector<FlagFacts>& flags);

}  // namespace cpprun
