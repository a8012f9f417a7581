// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The other end of a remote shell, what `cpprun --fanout-child [remove]` is: starts this host's
// agent and the shells of its subtree, passes on what they say, and ends them all when its input is
// over, be it because the console is gone.

#include "proto/environment.h"

namespace cpprun::io {

// `removes_itself`: the program was brought along, and its file is not needed any more.
int run_host_side(Environment environment, bool removes_itself);

}  // namespace cpprun::io
