// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of the evidence of a failure.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// How long the report of a failure to the other nodes is delayed to read its evidence from a
// hanging disk.
inline constexpr auto evidence_timeout = 2s;

// Nesting of arrays and objects in a worker's error.json: torchrun's schema has three levels, and
// programs that add their own stay below this. A hundred thousand would overflow the stack of
// recursive code.
inline constexpr std::size_t error_file_depth_max = 64;
// A worker's message as sent to the coordinator and back; the frame has room for it.
inline constexpr std::size_t failure_message_bytes_max = 2048;

}  // namespace cpprun::bounds
