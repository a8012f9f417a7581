// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The other end of the file of --events, in a process of its own: writes the lines that come
// through a pipe, each whole, and waits with them for a disk that is full.

namespace cpprun::io {

// Until the pipe ends. `news` is told the errno with which trouble begins, see HandedFile; when it
// is closed nobody waits for room any more.
void write_events(int file, int lines, int news);

}  // namespace cpprun::io
