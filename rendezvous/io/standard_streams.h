// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a program that runs for days may rely on: descriptors 0 to 2 are taken, and a write that
// cannot be done fails.

namespace cpprun {

// A descriptor that was closed before our time would be given to the next thing that is opened, a
// client's socket for instance, and what is meant for a person would be written there.
void fill_standard_streams();

// A reader that is gone and a file that has reached its limit (ulimit -f) are errors of a write
// from now on, and not the end of the process.
void survive_failed_writes();

}  // namespace cpprun
