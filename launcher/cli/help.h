// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprun's own texts in its help and its manual page, and the topics of --help.

#include <string>
#include <string_view>

#include "rendezvous/command_line.h"

namespace cpprun {

// cpprun without its flags.
ProgramFacts cpprun_facts();

// `topic` is "all", a flag, or the first word of a group ("failures"). Anything else, as a script
// that follows --help, gets the short help: the flags that most people use.
std::string help_text(const ProgramFacts& program, std::string_view topic);

}  // namespace cpprun
