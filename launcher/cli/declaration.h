// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Declares every flag of cpprun once: names, group, environment variables for its default, value
// type and help text. The help, the man page, shell completions, the --config file and the command
// line all use this declaration.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/cli/flags.h"
#include "rendezvous/command_line.h"

namespace cpprun {

class Declaration {
 public:
  // Binds each flag to its member of `flags`, which must outlive this object.
  explicit Declaration(Flags& flags);

  const ProgramFacts& program() const { return program_; }
  const std::vector<FlagFacts>& facts() const { return program_.flags; }
  const FlagFacts* find(std::string_view name) const;

  // Sets a flag's text and its source. A later call overrides an earlier one.
  void tell(const FlagFacts& flag, std::string text, SettingOrigin origin, std::string source);
  // Parses the texts set since the last call. An invalid text is added to `diagnostics`; the others
  // are still parsed.
  void resolve(Diagnostics& diagnostics);
  // The flags that were set, with their texts.
  std::vector<std::pair<const FlagFacts*, std::string>> given() const;

 private:
  // Connects a flag with its member of Flags.
  struct Binding {
    bool* given = nullptr;
    std::string* text = nullptr;
    std::string* source = nullptr;
    SettingOrigin* origin = nullptr;
    bool is_resolved = false;
  };

  void declare_rendezvous(Flags& flags);
  void declare_hosts(Flags& flags);
  void declare_workers(Flags& flags);
  void declare_endings(Flags& flags);
  void declare_log_files(Flags& flags);
  void declare_own_words(Flags& flags);
  void declare_compatibility(Flags& flags);
  void declare_general(Flags& flags);

  // `read` is a ValueReader<T>, or a function like it.
  template <class T, class Read>
  FlagFacts& add(Flag<T>& flag, std::string_view names, std::string_view value, Read read,
                 std::string_view help);
  FlagFacts& add(Flag<bool>& flag, std::string_view names, std::string_view help);
  template <class T>
  FlagFacts& bind(Flag<T>& flag, std::string_view names, std::string_view value,
                  std::string_view help, TakeValue take);

  ProgramFacts program_;           // its flags are in the order of the help
  std::vector<Binding> bindings_;  // the same order
  std::string_view group_;         // for the next declared flags
};

}  // namespace cpprun
