// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What cpprunctl can be asked, as the shells' completions and the manual page need it: taken from
// the declaration itself, so that none of them tells something else.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

struct ControlFlag {
  std::vector<std::string> spellings;  // "-f", "--follow"
  std::string value;                   // "TEXT"; empty: it takes none
  std::string help;
};

struct ControlCommand {
  std::string name;
  std::string help;
  std::string subject;  // "JOB", "HOST", "NODE|HOST"; empty: none
  bool needs_subject = false;
  std::vector<ControlFlag> flags;
};

struct ControlFacts {
  std::vector<ControlFlag> flags;  // of all commands
  std::vector<ControlCommand> commands;
};

// A completion script; nothing for a shell that is not known: bash, zsh, fish.
std::optional<std::string> control_completion(std::string_view shell, const ControlFacts& facts);
// A page for man(1).
std::string control_manual(const ControlFacts& facts, std::string_view version);

}  // namespace cpprun
