// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/base64.h"

#include <array>
#include <cstdint>

namespace cpprun {

namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t no_digit = 64;

constexpr auto digits = [] {
  std::array<std::uint8_t, 256> table{};
  table.fill(no_digit);
  for (std::size_t at = 0; at < alphabet.size(); ++at) {
    table[static_cast<unsigned char>(alphabet[at])] = static_cast<std::uint8_t>(at);
  }
  return table;
}();

std::uint32_t byte_at(std::string_view bytes, std::size_t at) {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
}

}  // namespace

std::string base64_of(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::uint32_t three =
        byte_at(bytes, at) << 16 | byte_at(bytes, at + 1) << 8 | byte_at(bytes, at + 2);
    text += alphabet[three >> 18];
    text += alphabet[three >> 12 & 63];
    text += at + 1 < bytes.size() ? alphabet[three >> 6 & 63] : '=';
    text += at + 2 < bytes.size() ? alphabet[three & 63] : '=';
  }
  return text;
}

std::optional<std::string> bytes_of_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t missing = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(missing);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t held = 0;
  int bits = 0;
  for (const char each : text) {
    const std::uint8_t digit = digits[static_cast<unsigned char>(each)];
    if (digit == no_digit) return std::nullopt;
    held = held << 6 | digit;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(held >> bits & 0xFF);
    held &= (1U << bits) - 1;
  }
  // What is over has to be nothing, or two texts would be the same bytes.
  if (held != 0) return std::nullopt;
  return bytes;
}

}  // namespace cpprun
