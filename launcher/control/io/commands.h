// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What cpprunctl does, and what it prints.

#include "launcher/control/wish.h"
#include "proto/environment.h"

namespace cpprun::io {

// Gives the exit code.
int run_control(const Wish& wish, const Environment& environment);

}  // namespace cpprun::io
