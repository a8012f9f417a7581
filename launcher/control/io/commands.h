// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The commands of cpprunctl.

#include "launcher/control/command_line.h"
#include "proto/environment.h"

namespace cpprun::io {

// Returns the exit code, as all of them do.
int run_control(const ControlOptions& options, const Environment& environment);

// The commands that follow the event stream or refresh are in watch.cpp: events, wait and top.
int show_events(const ControlOptions& options, const Environment& environment);
int wait_for_end(const ControlOptions& options, const Environment& environment);
// Refreshes each second. Prints once if stdout is not a terminal.
int show_top(const ControlOptions& options, const Environment& environment);

}  // namespace cpprun::io
