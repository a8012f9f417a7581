// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Declares every flag once: names, group, environment variables for its default, value type and
// help text. The help, the man page, shell completions, the --config file and the command line all
// use this declaration. CLI11 options are created only for flags that are set: creating all sixty
// would take a third of the instructions of a launch.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/flags.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cpprun {

// What is needed to print a flag and to recognize it in arguments.
struct FlagFacts {
  std::string name;                    // without the leading dashes
  char letter = 0;                     // the short flag; 0: none
  std::string value;                   // name of the value in the help; empty: it takes none
  std::string group;                   // heading in the help
  std::string help;                    // one line
  std::vector<std::string> variables;  // environment variables; the first that is set wins
  std::vector<std::string> choices;    // values worth completing; there may be others
  bool in_file = true;                 // --config FILE may set it
  bool may_be_empty = false;           // otherwise an empty value is an error
  bool is_launchers_own = false;       // hardly any script has a flag of that name
  bool yields = false;                 // a prefix shared with another flag means the other one

  bool takes_value() const { return !value.empty(); }
};

class Declaration {
 public:
  // Binds each flag to its member of `flags`, which must outlive this object.
  explicit Declaration(Flags& flags);
  ~Declaration();
  Declaration(const Declaration&) = delete;
  Declaration& operator=(const Declaration&) = delete;

  const std::vector<FlagFacts>& facts() const { return facts_; }
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
    std::function<CLI::Option*(CLI::App&)> make;
    CLI::Option* option = nullptr;  // created when the flag is first set
    bool* given = nullptr;
    std::string* text = nullptr;
    std::string* source = nullptr;
    SettingOrigin* origin = nullptr;
    int place = 0;
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

  // `names` in CLI11's notation: "-r,--redirects".
  template <class T>
  FlagFacts& add(Flag<T>& flag, const char* names, const char* value, ValueReader<T> read,
                 const char* help);
  FlagFacts& add(Flag<bool>& flag, const char* names, const char* help);
  template <class T>
  FlagFacts& bind(Flag<T>& flag, const char* names, const char* value, const char* help,
                  std::function<CLI::Option*(CLI::App&)> make);

  std::unique_ptr<CLI::App> app_;
  const char* group_ = "";         // for the next declared flags
  std::vector<FlagFacts> facts_;   // in the order of the help
  std::vector<Binding> bindings_;  // the same order
};

}  // namespace cpprun
