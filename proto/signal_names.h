// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Signals by their names, for flags, for the workers' environment and for sentences.

#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

// "SIGSEGV"; "signal 99" where there is no name.
std::string signal_name(int signal);

// "segmentation fault"; empty where the name says it all.
std::string signal_meaning(int signal);

// Whether it asks a program to end. Of the others (SIGUSR1, SIGWINCH…) workers may make what they
// like: they are passed on.
bool asks_to_end(int signal);

// The number of "SIGTERM" or "TERM"; nothing where there is none.
std::optional<int> signal_number(std::string_view name);

}  // namespace cpprun
