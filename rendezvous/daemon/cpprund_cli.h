// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The command line of cpprund as a value.

#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/daemon/daemon_options.h"

namespace cpprun {

// Nothing to run: --help, --version, or a mistake that `text` explains.
struct CommandLineEnd {
  int exit_code = 0;
  std::string text;
};

// `version`: what --version says. `log_level`: what CPPRUN_LOG_LEVEL says, for where no flag does;
// may be empty.
std::variant<DaemonOptions, CommandLineEnd> parse_daemon_options(int argc, const char* const* argv,
                                                                 std::string_view version,
                                                                 std::string_view log_level = {});

}  // namespace cpprun
