// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of the workers' output.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// Disk timeouts for a file that the user has named (a report, events, logs): before the job starts,
// when a network file system may just be mounting; while it runs, since heartbeats wait for it; and
// at the end, after which the rest is written by a helper process.
inline constexpr auto disk_timeout_at_start = 10s;
inline constexpr auto disk_timeout_meanwhile = 1s;
inline constexpr auto disk_timeout_at_end = 5s;

// A longer line is passed on in parts, so a worker without newlines costs no memory.
inline constexpr std::size_t line_bytes_max = 64 * 1024;
// Bytes read from the pipe of an exited worker, in case another process still writes to it: more
// than a pipe's default capacity.
inline constexpr std::size_t pipe_bytes_max = 1024 * 1024;
// The tail of a worker's stderr kept for the diagnosis, in lines and in bytes: a C++ exception of
// LibTorch prints its message above some forty stack frames.
inline constexpr std::size_t last_lines_max = 200;
inline constexpr std::size_t last_lines_bytes_max = 32 * 1024;
// Bytes read of a worker's error.json: a traceback has kilobytes, garbage may have gigabytes.
inline constexpr std::size_t error_file_bytes_max = 1024 * 1024;

}  // namespace cpprun::bounds
