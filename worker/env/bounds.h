// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of a worker without LibTorch.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// The message in an error file. what() of a C++ exception with a whole backtrace stays below it;
// the rest is cut, since the launcher reads the file into memory.
inline constexpr std::size_t worker_error_bytes_max = 64 * 1024;
// How long a rank that hosts the store waits for the others to disconnect after a success.
inline constexpr std::chrono::milliseconds worker_goodbye_wait_max = 10s;
// The text of a backtrace, preallocated for a handler that must not allocate.
inline constexpr std::size_t worker_backtrace_bytes_max = 16 * 1024;

}  // namespace cpprun::bounds
