// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The kernel's random numbers. std::random_device asks the processor what it can do each time one
// is made, and in a virtual machine each such question wakes the host: 30 µs of a launch.

#include <cstdint>
#include <span>

#include "proto/result.h"

namespace cpprun {

// Fills them, from /dev/urandom where there is no getrandom: in an old kernel, or behind a filter
// of system calls. An error: neither can be had.
Result<void> fill_randomly(std::span<unsigned char> bytes);

// The same for callers that can neither report the error nor continue: the program exits with 1 and
// writes the reason to stderr.
void need_random(std::span<unsigned char> bytes);
std::uint64_t random_word();

}  // namespace cpprun
