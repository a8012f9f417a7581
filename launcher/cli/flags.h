// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The flags there are, by torchrun's names, and the way from the words a person typed to settled
// names and values: both spellings, abbreviations, glued values, what belongs to the script.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/environment.h"

namespace cpprun {

struct Flag {
  std::string_view name;    // with dashes, without the leading two
  char letter = 0;          // the short spelling; 0: none
  std::string_view value;   // what the help calls its value; empty: it takes none
  bool environment = true;  // PET_<NAME> gives its default
  std::string_view help;

  bool takes_value() const { return !value.empty(); }
};

const std::vector<Flag>& flags();

// "PET_NPROC_PER_NODE".
std::string environment_name(const Flag& flag);

// What a person typed, every flag by its full name, in order. Later ones win.
struct TypedFlag {
  const Flag* flag = nullptr;
  std::string spelled;  // as it was typed, for complaints
  std::string value;    // empty for a flag without one
};

struct TypedWords {
  std::vector<TypedFlag> typed;
  std::optional<std::string> script;
  std::vector<std::string> arguments;  // of the script, verbatim
  std::vector<std::string> mistakes;
};

TypedWords read_words(const std::vector<std::string>& words);

}  // namespace cpprun
