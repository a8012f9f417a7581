// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The way from the words a person typed to flags by their full names, as torchrun reads them: both
// spellings, unique beginnings, glued letters, and where the script's own arguments begin. That
// last thing, and a mistake that does not hide the next one, are what CLI11 cannot do here.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/declaration.h"

namespace cpprun {

// In order; later ones win.
struct TypedFlag {
  const FlagFacts* flag = nullptr;
  std::string spelled;    // as it was typed, for complaints
  std::string value;      // empty for a flag without one
  bool is_apart = false;  // the value is a word of its own
};

struct TypedWords {
  std::vector<TypedFlag> typed;
  std::optional<std::string> script;
  std::vector<std::string> arguments;  // of the script, verbatim
  std::vector<std::string> mistakes;
  // The flag whose value is probably the script; nullptr: none.
  const TypedFlag* swallower() const;
};

// "rdzv_id" is "rdzv-id".
std::string flag_name(std::string_view spelled);

// Sentences about arguments of the script that are spelled as flags of the launcher alone are, and
// that were not given to it as well.
std::vector<std::string> notes_of_arguments(const std::vector<FlagFacts>& flags,
                                            const TypedWords& words);

// What was typed points into `flags`.
TypedWords read_words(const std::vector<FlagFacts>& flags, const std::vector<std::string>& words);

}  // namespace cpprun
