// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a long-running program relies on: descriptors 0 to 2 are taken, and a write that cannot be
// done fails.

namespace cpprun {

// A closed standard descriptor would be given to the next thing that is opened, a client's socket
// for instance, and messages for a person would be written there.
void fill_standard_streams();

// From now on a vanished reader, or a file at its limit (ulimit -f), is an error of the write and
// not the end of the process.
void survive_failed_writes();

}  // namespace cpprun
