// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprund's command line as a value, and the manual page and shell completions generated from it.

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/environment.h"
#include "rendezvous/command_line.h"
#include "rendezvous/daemon/daemon_options.h"

namespace cpprun {

// `version` is the text that --version prints. CPPRUN_LOG_LEVEL in `environment` sets the log level
// if no flag does.
std::variant<DaemonOptions, CommandLineEnd> parse_daemon_options(
    int argc, const char* const* argv, std::string_view version,
    const Environment& environment = {});

// The manual page and the completion scripts are generated from the flag declarations, so they
// cannot disagree with --help.

struct DaemonFlag {
  std::vector<std::string> spellings;  // "-h", "--help"
  std::string value;                   // "FILE"; empty: takes no value
  std::string standard;                // default value; empty: none, or stated in the help text
  std::vector<std::string> choices;    // all valid values; empty: any value
  std::string help;                    // one line
};

// A page for man(8), written in man(7) macros.
std::string daemon_manual(const std::vector<DaemonFlag>& flags, std::string_view version);

// A completion script for bash, zsh or fish; nullopt for any other shell.
std::optional<std::string> daemon_completion(std::string_view shell,
                                             const std::vector<DaemonFlag>& flags);

}  // namespace cpprun
