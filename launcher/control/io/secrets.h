// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprunctl's commands about secrets: these ask nobody.

#include "launcher/control/wish.h"
#include "proto/environment.h"

namespace cpprun::io {

// keygen. Answers the exit code, as all of them do.
int make_secret(const Wish& wish, const Environment& environment);
// token.
int print_token(const Wish& wish, const Environment& environment);

}  // namespace cpprun::io
