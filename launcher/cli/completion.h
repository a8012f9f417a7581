// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a shell needs to complete cpprun's flags and their values as they are typed.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/declaration.h"

namespace cpprun {

// A script to be sourced by bash, zsh, fish or tcsh; nothing for any other shell.
std::optional<std::string> completion_script(std::string_view shell,
                                             const std::vector<FlagFacts>& flags);

}  // namespace cpprun
