// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Looks at a worker that is about to be sent KILL, because afterwards nobody can.

#include <string>

namespace cpprun::io {

// What the leader of that group was doing, and the first few of those below it; in words. Empty
// where it is gone by now. Reads a handful of files in /proc, waits for nothing.
std::string process_snapshot(int pid);

}  // namespace cpprun::io
