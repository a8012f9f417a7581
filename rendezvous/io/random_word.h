// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// 64 bits of the kernel's random numbers. std::random_device asks the processor what it can do each
// time one is made, and in a virtual machine each such question wakes the host: 30 µs of a launch.

#include <sys/random.h>
#include <sys/types.h>

#include <cstdint>

namespace cpprun {

inline std::uint64_t random_word() {
  std::uint64_t word = 0;
  // So few bytes come at once; a signal may come first.
  while (::getrandom(&word, sizeof word, 0) != static_cast<ssize_t>(sizeof word)) {
  }
  return word;
}

}  // namespace cpprun
