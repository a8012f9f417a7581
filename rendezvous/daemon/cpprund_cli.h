// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The command line of cpprund as a value.

#include <string>
#include <string_view>
#include <variant>

#include "proto/environment.h"
#include "rendezvous/command_line.h"
#include "rendezvous/daemon/daemon_options.h"

namespace cpprun {

// `version`: what --version says. `environment`: CPPRUN_LOG_LEVEL there says what no flag does.
std::variant<DaemonOptions, CommandLineEnd> parse_daemon_options(
    int argc, const char* const* argv, std::string_view version,
    const Environment& environment = {});

}  // namespace cpprun
