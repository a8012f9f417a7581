// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// --config FILE: defaults for flags, one per line, `nnodes = 2`. CLI11 reads the values, quotes and
// lists of TOML and INI; this adds what it does not report: the line something is on, that a key is
// unknown or repeated, and that a file is not of this kind at all.

#include <string>

#include "launcher/cli/declaration.h"
#include "launcher/cli/mistakes.h"

namespace cpprun {

// Tells the flags what the `text` of the file at `path` says of them.
void tell_config_file(const std::string& path, const std::string& text, Declaration& declaration,
                      Mistakes& mistakes);

}  // namespace cpprun
