// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Every flag, declared once: its names, its group, the variables that give its default, the kind of
// its value, what the help says. The help, the man page, the shells' completions, the --config file
// and the command line are all read off this one declaration. CLI11 keeps those that somebody sets:
// an option for each of the sixty would be a third of all instructions of a launch.

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

// What others need to know of a flag to print it, and to recognise it among words.
struct FlagFacts {
  std::string name;                    // with dashes, without the leading two
  char letter = 0;                     // the short spelling; 0: none
  std::string value;                   // what the help calls its value; empty: it takes none
  std::string group;                   // its heading in the help
  std::string help;                    // one line
  std::vector<std::string> variables;  // of the environment, the first that is set counts
  std::vector<std::string> choices;    // values worth completing; there may be others
  bool in_file = true;                 // --config FILE may set it
  bool may_be_empty = false;           // else an empty value is a mistake
  bool is_common = false;              // in the short help
  bool is_launchers_own = false;       // hardly any script has a flag of that name
  bool yields = false;                 // a beginning that it shares with another is the other's

  bool takes_value() const { return !value.empty(); }
};

class Declaration {
 public:
  // Binds each flag to its member of `flags`, which outlives this.
  explicit Declaration(Flags& flags);
  ~Declaration();
  Declaration(const Declaration&) = delete;
  Declaration& operator=(const Declaration&) = delete;

  const std::vector<FlagFacts>& facts() const { return facts_; }
  const FlagFacts* find(std::string_view name) const;

  // Tells a flag what was written, and where. What is told later wins.
  void tell(const FlagFacts& flag, std::string text, SettingOrigin origin, std::string source);
  // Turns the texts that are new since the last call into values. A text that is no value is a
  // mistake, and the others are read all the same.
  void settle(Mistakes& mistakes);
  // The flags that were told something, and what.
  std::vector<std::pair<const FlagFacts*, std::string>> given() const;

 private:
  // What a member of Flags learns as its flag is told something.
  struct Binding {
    std::function<CLI::Option*(CLI::App&)> make;
    CLI::Option* option = nullptr;  // made when it is told something for the first time
    bool* given = nullptr;
    std::string* text = nullptr;
    std::string* source = nullptr;
    SettingOrigin* origin = nullptr;
    int place = 0;
    bool is_settled = false;
  };

  void declare_rendezvous(Flags& flags);
  void declare_hosts(Flags& flags);
  void declare_workers(Flags& flags);
  void declare_endings(Flags& flags);
  void declare_log_files(Flags& flags);
  void declare_own_words(Flags& flags);
  void declare_compatibility(Flags& flags);
  void declare_general(Flags& flags);

  // `names` as CLI11 takes them: "-r,--redirects".
  template <class T>
  FlagFacts& add(Flag<T>& flag, const char* names, const char* value, ValueReader<T> read,
                 const char* help);
  FlagFacts& add(Flag<bool>& flag, const char* names, const char* help);
  template <class T>
  FlagFacts& bind(Flag<T>& flag, const char* names, const char* value, const char* help,
                  std::function<CLI::Option*(CLI::App&)> make);

  std::unique_ptr<CLI::App> app_;
  const char* group_ = "";         // of what is declared next
  std::vector<FlagFacts> facts_;   // as they stand in the help
  std::vector<Binding> bindings_;  // the same order
};

}  // namespace cpprun
