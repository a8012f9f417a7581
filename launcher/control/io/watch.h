// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The commands that listen: events as lines, and the end of a job.

#include "launcher/control/wish.h"
#include "proto/environment.h"

namespace cpprun::io {

int show_events(const Wish& wish, const Environment& environment);
int wait_for_end(const Wish& wish, const Environment& environment);

}  // namespace cpprun::io
