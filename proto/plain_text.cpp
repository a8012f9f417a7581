// SPDX-License-Identifier: BSD-3-Clause
#include "proto/plain_text.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace cpprun {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Unicode's controls, format characters (category Cf) and separators of lines and paragraphs, in
// order; the ends of lines and the tab are decided elsewhere.
constexpr std::array<Range, 24> commands{{
    {0x0000, 0x001F},   {0x007F, 0x009F},   {0x00AD, 0x00AD},   {0x0600, 0x0605},
    {0x061C, 0x061C},   {0x06DD, 0x06DD},   {0x070F, 0x070F},   {0x0890, 0x0891},
    {0x08E2, 0x08E2},   {0x180E, 0x180E},   {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},   {0xFFFE, 0xFFFF},
    {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1345F}, {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0001, 0xE0001}, {0xE0020, 0xE007F}, {0xF0000, 0x10FFFF},
}};

bool is_command(std::uint32_t letter) {
  const auto* const after =
      std::upper_bound(commands.begin(), commands.end(), letter,
                       [](std::uint32_t value, const Range& range) { return value < range.first; });
  return after != commands.begin() && letter <= (after - 1)->last;
}

// The bytes of the character that begins the text, and which it is; 0 bytes where none does.
struct Letter {
  std::size_t bytes = 0;
  std::uint32_t value = 0;
};

Letter first_letter(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {1, lead};
  // What began with fewer bytes was written longer than it is, which hides it from others.
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t value = lead & (0x7FU >> bytes);
  for (std::size_t at = 1; at < bytes; ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if ((byte & 0xC0U) != 0x80U) return {};
    value = value << 6U | (byte & 0x3FU);
  }
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < least[bytes] || value > 0x10FFFF || is_surrogate) return {};
  return {bytes, value};
}

std::string plain(std::string_view text, bool has_lines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Letter letter = first_letter(text);
    const bool stays = letter.value == '\t' || (has_lines && letter.value == '\n') ||
                       (letter.bytes > 0 && !is_command(letter.value));
    if (stays) {
      result += text.substr(0, letter.bytes);
    } else {
      result += '?';
    }
    text.remove_prefix(std::max<std::size_t>(letter.bytes, 1));
  }
  return result;
}

}  // namespace

std::string plain_line(std::string_view text) {
  return plain(text, false);
}

std::string plain_line(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return plain(text, false);
  // Not inside a character: its other bytes would become question marks.
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  // In a row of such bytes there is no character's beginning near.
  if (bytes_max - end > 3) end = bytes_max;
  return plain(text.substr(0, end), false) + "…";
}

std::string plain_lines(std::string_view text) {
  return plain(text, true);
}

}  // namespace cpprun
