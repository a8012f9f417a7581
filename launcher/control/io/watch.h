// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The commands that follow the event stream or refresh: events, wait and top.

#include "launcher/control/command_line.h"
#include "proto/environment.h"

namespace cpprun::io {

int show_events(const ControlOptions& options, const Environment& environment);
int wait_for_end(const ControlOptions& options, const Environment& environment);

// `cpprunctl top`: refreshes each second. Prints once if stdout is not a terminal.
int show_top(const ControlOptions& options, const Environment& environment);

}  // namespace cpprun::io
