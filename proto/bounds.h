// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Limits that several rooms share, each with its unit and its reason; the others are in the
// bounds.h of their room. What exceeds a limit is rejected with a message that names the limit.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// Names in every Join; longer ones are rejected on the command line.
inline constexpr std::size_t job_id_bytes_max = 256;
inline constexpr std::size_t role_bytes_max = 128;
// The file of --config: a hundred times what all flags need. Catches wrong files, such as model
// weights.
inline constexpr std::size_t config_file_bytes_max = 1024 * 1024;
// Upper bound of the growing pause before a restart, unless a longer one was requested.
inline constexpr std::chrono::nanoseconds backoff_max = 5min;

// Frames of a backtrace; a runaway recursion repeats itself after far fewer.
inline constexpr int worker_backtrace_frames_max = 64;

}  // namespace cpprun::bounds
