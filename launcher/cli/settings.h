// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The way from the flags' values to a checked Config. Every check complains by itself and the rest
// goes on, so that a person sees all mistakes at once.

#include <string>
#include <vector>

#include "launcher/cli/cli.h"
#include "launcher/cli/flags.h"
#include "launcher/cli/mistakes.h"
#include "launcher/config.h"

namespace cpprun {

// Drops each setting that contradicts a stronger one: what an operator sets in the environment or a
// file must not stop a command that says otherwise. Returns a note for each.
std::vector<std::string> drop_contradicted(Flags& flags);

// Appends to `mistakes`; the Config is of use only where there are none.
Config config_of(const Flags& flags, const CommandLine& line, Mistakes& mistakes);

}  // namespace cpprun
