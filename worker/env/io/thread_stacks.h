// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <string>
#include <string_view>

namespace cpprun {

// The stacks of all threads of this process, innermost frame first, in the format of Python's
// faulthandler after a line "native". At most 64 threads; the main thread is the last one. A thread
// that blocks all real-time signals, or does not react in time, has no frames, and a reason. Leaves
// out the threads of that name.
//
// A real-time signal makes the threads, one after the other, store their own stacks. A system call
// that SA_RESTART does not restart (epoll_wait, nanosleep) then ends with EINTR. Call it from one
// thread at a time.
std::string native_traceback(std::string_view left_out = {});

}  // namespace cpprun
