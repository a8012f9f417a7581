// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "launcher/control/wish.h"
#include "proto/environment.h"

namespace cpprun::io {

// `cpprunctl doctor`: prints what was found, and gives the exit code.
int examine(const Wish& wish, const Environment& environment);

}  // namespace cpprun::io
