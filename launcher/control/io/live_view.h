// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// `cpprunctl top`: looks again each second, and shows it.

#include "launcher/control/wish.h"
#include "proto/environment.h"

namespace cpprun::io {

// Where stdout is no terminal, once.
int show_top(const Wish& wish, const Environment& environment);

}  // namespace cpprun::io
