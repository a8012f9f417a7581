// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The help text, the man page and the shell completions.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/declaration.h"

namespace cpprun {

// `topic` is "all", a flag, or the first word of a group ("failures"). Anything else, as a script
// that follows --help, gets the short help: the flags that most people use.
std::string help_text(const std::vector<FlagFacts>& flags, std::string_view topic);

// In the man(7) macros, for man(1).
std::string manual_page(const std::vector<FlagFacts>& flags, const std::string& version);

// What a shell needs to complete cpprun's flags and their values.

// A script to source in bash, zsh, fish or tcsh; nullopt for any other shell.
std::optional<std::string> completion_script(std::string_view shell,
                                             const std::vector<FlagFacts>& flags);

}  // namespace cpprun
