// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The command line of cpprund as a value, and the manual page and completions that are made of it.

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/environment.h"
#include "rendezvous/command_line.h"
#include "rendezvous/daemon/daemon_options.h"

namespace cpprun {

// `version`: what --version says. `environment`: CPPRUN_LOG_LEVEL there says what no flag does.
std::variant<DaemonOptions, CommandLineEnd> parse_daemon_options(
    int argc, const char* const* argv, std::string_view version,
    const Environment& environment = {});

// cpprund's manual page, and what shells complete its flags with: made of what was declared, so
// that neither tells anything else than --help.

struct DaemonFlag {
  std::vector<std::string> spellings;  // "-h", "--help"
  std::string value;                   // "FILE"; empty: it takes none
  std::string standard;                // the value where nobody says one; empty: the help says it
  std::vector<std::string> choices;    // all there are; empty: any
  std::string help;                    // one line
};

// For man(8), in the macros of man(7).
std::string daemon_manual(const std::vector<DaemonFlag>& flags, std::string_view version);

// A completion script; nothing for a shell that is not known: bash, zsh, fish.
std::optional<std::string> daemon_completion(std::string_view shell,
                                             const std::vector<DaemonFlag>& flags);

}  // namespace cpprun
