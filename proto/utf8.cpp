// SPDX-License-Identifier: BSD-3-Clause
#include "proto/utf8.h"

#include <array>

namespace cpprun {

namespace {

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {1, lead};
  // What began with fewer bytes was written longer than it is.
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7FU >> bytes);
  for (std::size_t at = 1; at < bytes; ++at) {
    if (!continues(text[at])) return {};
    code = code << 6U | (static_cast<unsigned char>(text[at]) & 0x3FU);
  }
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < least[bytes] || code > 0x10FFFF || is_surrogate) return {};
  return {bytes, code};
}

std::size_t length_within(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text.size();
  std::size_t end = bytes_max;
  while (end > 0 && continues(text[end])) --end;
  // In a row of such bytes there is no character's beginning near.
  return bytes_max - end > 3 ? bytes_max : end;
}

}  // namespace cpprun
