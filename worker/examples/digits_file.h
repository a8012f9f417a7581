// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads the handwritten digits of data/digits.bin; data/README.md describes the bytes.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace cpprun::examples {

struct Digits {
  int count = 0;
  int rows = 0;
  int columns = 0;
  int classes = 0;
  std::vector<std::uint8_t> pixels;  // count × rows × columns, 0 (paper) to 16 (ink)
  std::vector<std::uint8_t> labels;  // count
};

// The error for a damaged or wrong file names the file, the offset, and what is wrong there.
Result<Digits> parse_digits(std::string_view bytes, const std::string& name);
Result<Digits> read_digits(const std::string& path);

// The first path that exists: beside the program, in the data directory of its installation, in the
// source tree it was built from. Empty if none exists.
std::string find_digits();

}  // namespace cpprun::examples
