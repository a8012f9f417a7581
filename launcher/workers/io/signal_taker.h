// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether a process takes a signal: by a handler, by waiting for it, or by ignoring it. One that
// does not would end of SIGUSR1.

#include <string_view>

namespace cpprun::io {

// Of a process that is there, by /proc; where that does not say, it does not.
bool takes_signal(int pid, int signal);

// The same of what /proc/PID/status says.
bool takes_signal_by(std::string_view status, int signal);

}  // namespace cpprun::io
