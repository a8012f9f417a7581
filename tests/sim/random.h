// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Random numbers from a seed. They come from streams named by keys (this node, that round, that
// worker), so that removing one fault leaves every other draw as it was: a failing run can be made
// smaller. Not <random>: its distributions differ between standard libraries.

#include <cstdint>

#include "proto/clock.h"

namespace cpprun::sim {

class Random {
 public:
  template <class... Keys>
  explicit Random(std::uint64_t seed, Keys... keys) : state_(mix(seed)) {
    ((state_ = mix(state_ ^ (static_cast<std::uint64_t>(keys) * golden + 1))), ...);
  }

  std::uint64_t next() { return mix(state_ += golden); }
  bool chance(double probability) {
    return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
  }
  // Both ends included.
  int between(int least, int most) {
    return least + static_cast<int>(next() % static_cast<std::uint64_t>(most - least + 1));
  }
  Duration between(Duration least, Duration most) {
    const auto span = static_cast<std::uint64_t>((most - least).count()) + 1;
    return least + Duration{static_cast<std::int64_t>(next() % span)};
  }
  Duration up_to(Duration most) { return between(Duration{}, most); }

 private:
  static constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;
  // The finalizer of splitmix64.
  static std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
  }

  std::uint64_t state_;
};

}  // namespace cpprun::sim
