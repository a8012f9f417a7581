// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Numbers that nobody else has, out of one that is random: splitmix64. For ids, and not for
// secrets.

#include <cstdint>

namespace cpprun {

class NumberStream {
 public:
  explicit NumberStream(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t value = state_ += 0x9E3779B97F4A7C15ULL;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
  }
  // Above zero.
  std::int64_t positive() { return static_cast<std::int64_t>(next() >> 1 | 1); }

 private:
  std::uint64_t state_;
};

}  // namespace cpprun
