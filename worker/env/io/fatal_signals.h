// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A worker that dies of SEGV, BUS, FPE, ILL or ABRT leaves an error file with the moment of its
// death, which is what tells cause from consequence among many ranks. The signal then takes its
// ordinary course, so the launcher still sees it in the exit status.

#include <string>

namespace cpprun {

// Does nothing for a signal that somebody else (a sanitizer, a crash reporter) already handles.
// Without an error file only a line on stderr is written.
void install_fatal_signal_handlers(const std::string& error_file, int rank);

// The rank that their lines begin with, if it is another one than was said then.
void name_rank_in_signals(int rank);

}  // namespace cpprun
