// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Names of signals, for flags, the workers' environment and messages.

#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

// "SIGSEGV"; "signal 99" if it has no name.
std::string signal_name(int signal);

// "segmentation fault"; empty if the name is clear enough.
std::string signal_meaning(int signal);

// Whether it is a request to exit. Other signals (SIGUSR1, SIGWINCH…) have no meaning here and are
// passed on to the workers.
bool asks_to_end(int signal);

// The number of "SIGTERM" or "TERM"; empty if there is no such signal.
std::optional<int> signal_number(std::string_view name);

}  // namespace cpprun
