#pragma once
// The command line of cpprund as a value.

#include <string>
#include <variant>

#include "rendezvous/daemon_options.h"

namespace cpprun {

// Nothing to run: --help, or a mistake that `text` explains.
struct CommandLineEnd {
  int exit_code = 0;
  std::string text;
};

std::variant<DaemonOptions, CommandLineEnd> parse_daemon_options(int argc, const char* const* argv);

}  // namespace cpprun
