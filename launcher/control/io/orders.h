// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The commands that ask for something to be done.

#include "launcher/control/wish.h"
#include "proto/environment.h"

namespace cpprun::io {

int give_order(const Wish& wish, const Environment& environment);

}  // namespace cpprun::io
