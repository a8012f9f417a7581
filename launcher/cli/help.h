// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The help, and the same as a manual page.

#include <string>
#include <vector>

#include "launcher/cli/declaration.h"

namespace cpprun {

std::string help_text(const std::vector<FlagFacts>& flags);

// For man(1), in the macros of man(7).
std::string manual_page(const std::vector<FlagFacts>& flags, const std::string& version);

}  // namespace cpprun
