// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace cpprun::fuzz {

namespace {

constexpr std::size_t input_bytes_max = 64 * 1024;
constexpr unsigned changes_max = 4;

// Common weak points of decoders: limits of integers, brackets, ends of texts.
constexpr std::array<std::string_view, 12> morsels = {
    std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff", 8),
    std::string_view("\xff\xff\xff\xff\xff\xff\xff\x7f", 8),
    std::string_view("\0\0\0\0\0\0\0\0", 8),
    std::string_view("\0\0\0\x80", 4),
    std::string_view("\xe2\x80\xa6", 3),
    "-9223372036854775809",
    "18446744073709551616",
    "1e999",
    "[[[[[[[[[[[[[[[[",
    "\",\"",
    "\r\n",
    "\\u0000"};

std::size_t place(std::size_t size, std::mt19937& random) {
  return std::uniform_int_distribution<std::size_t>(0, size)(random);
}

void change(std::string& bytes, const std::vector<std::string>& inputs, std::mt19937& random) {
  const std::size_t at = place(bytes.size(), random);
  const std::size_t length = place(std::min<std::size_t>(bytes.size() - at, 32), random);
  switch (random() % 6) {
    case 0:
      if (at < bytes.size()) bytes[at] = static_cast<char>(random());
      break;
    case 1:
      bytes.erase(at, length);
      break;
    case 2:
      bytes.insert(at, bytes.substr(at, length));
      break;
    case 3:
      bytes.insert(at, morsels[random() % morsels.size()]);
      break;
    case 4:
      bytes.resize(at);
      break;
    default: {
      const std::string& other = inputs[random() % inputs.size()];
      bytes.replace(at, length, other, place(other.size(), random), 64);
    }
  }
}

}  // namespace

std::string mutate(const std::vector<std::string>& inputs, std::mt19937& random) {
  std::string bytes = inputs[random() % inputs.size()];
  const unsigned changes = 1 + static_cast<unsigned>(random() % changes_max);
  for (unsigned done = 0; done < changes; ++done) change(bytes, inputs, random);
  if (bytes.size() > input_bytes_max) bytes.resize(input_bytes_max);
  return bytes;
}

}  // namespace cpprun::fuzz
