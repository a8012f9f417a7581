// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprund's manual page, and what shells complete its flags with: made of what was declared, so
// that neither tells anything else than --help.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

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
