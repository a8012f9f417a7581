// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The commands that listen: events as lines, the end of a job, and top.

#include "launcher/control/command_line.h"
#include "proto/environment.h"

namespace cpprun::io {

int show_events(const Wish& wish, const Environment& environment);
int wait_for_end(const Wish& wish, const Environment& environment);

// `cpprunctl top`: looks again each second, and shows it.
// Where stdout is no terminal, once.
int show_top(const Wish& wish, const Environment& environment);

}  // namespace cpprun::io
