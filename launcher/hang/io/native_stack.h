// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The stack of a thread in another process, by libdw (elfutils), which is loaded if it is
// installed. The thread is stopped for about a millisecond. That can end a few system calls with
// EINTR (epoll_wait, semop), as SIGSTOP and SIGCONT do. Permission is that of ptrace(2).

#include <string>

#include "proto/clock.h"
#include "proto/result.h"

namespace cpprun::io {

// Frames of the main thread, innermost first: "function file:line" per line, or "function library"
// where there is no debug information. A function may contain spaces, a file in general does not.
// `deadline` limits the time for names.
Result<std::string> native_stack_of(int pid, TimePoint deadline);

// Why no native stack can be read on this machine, and why not even a child of this process can be
// traced; empty: nothing prevents it.
std::string libdw_refusal();
std::string ptrace_refusal();

}  // namespace cpprun::io
