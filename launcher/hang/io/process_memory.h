// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The Python stacks of another process by process_vm_readv(2), without stopping it. Permission is
// the same as for ptrace(2).

#include "launcher/hang/observation.h"
#include "proto/clock.h"

namespace cpprun::io {

struct PythonStacks {
  hang::Answer traceback = {};  // not_asked: that is no Python, or one before 3.13
  bool main_holds_gil = false;
};

PythonStacks python_stacks_of(int pid, TimePoint deadline);

}  // namespace cpprun::io
