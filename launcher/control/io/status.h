// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// `cpprunctl status`: one job, or the daemons that are here with all of their jobs.

#include "launcher/control/wish.h"
#include "proto/environment.h"

namespace cpprun::io {

// Prints it and gives the exit code.
int show_status(const Wish& wish, const Environment& environment);

}  // namespace cpprun::io
