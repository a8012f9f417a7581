// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A child process that shares this process's memory until it executes a program. That is fast in a
// large process, runs no fork handler of other libraries, and tells an error through memory.

#include <sys/types.h>

namespace cpprun {

// For the functions that run in the child. Instrumented code would look for the shadow of a stack
// that is not the thread's.
#define CPPRUN_BARE __attribute__((no_sanitize("address", "undefined", "thread")))

struct BareChild {
  pid_t pid = -1;  // -1: there is none
  int pidfd = -1;  // -1: the kernel is older than 5.2, or a sandbox forbids it
  int error = 0;   // errno, if there is no child
};

// Runs `body` in a child, on a stack of its own (64 KiB), and returns when the child has executed a
// program or exited. All signals are blocked in the child until it changes that; it must first set
// the handlers of this process to their defaults. The body may only make system calls.
BareChild start_bare_child(int (*body)(void*), void* argument);

}  // namespace cpprun
