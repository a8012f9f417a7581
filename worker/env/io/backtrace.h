// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where the program is: the functions that called each other, innermost first. Names come from the
// dynamic symbol tables, so a program linked with -rdynamic (CMake: ENABLE_EXPORTS) shows its own
// functions and not only those of libraries; the rest is `program+0x1f2a`, which addr2line reads.

#include <cstddef>
#include <string>

namespace cpprun {

// Where the exception now being handled by std::terminate was thrown; failing that, here.
std::string backtrace_of_throw();

// Call once before a handler may need it: the first back-trace of a process loads a library.
void prepare_backtrace();

// For a signal handler: allocates nothing, takes no lock of ours. Names stay mangled (c++filt reads
// them). Returns the number of bytes written.
std::size_t backtrace_in_signal(char* text, std::size_t size) noexcept;

}  // namespace cpprun
