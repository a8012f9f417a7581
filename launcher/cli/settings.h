// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The way from the flags' values to a checked Config. Every check complains by itself and the rest
// goes on, so that a person sees all mistakes at once.

#include "launcher/cli/cli.h"
#include "launcher/cli/flags.h"
#include "launcher/cli/mistakes.h"
#include "launcher/config.h"

namespace cpprun {

// Appends to `mistakes`; the Config is of use only where there are none.
Config config_of(const Flags& flags, const CommandLine& line, Mistakes& mistakes);

}  // namespace cpprun
