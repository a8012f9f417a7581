// SPDX-License-Identifier: BSD-3-Clause
#include "proto/plain_text.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "proto/utf8.h"

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

std::string plain(std::string_view text, bool has_lines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character letter = first_character(text);
    const bool stays = letter.code == '\t' || (has_lines && letter.code == '\n') ||
                       (letter.bytes > 0 && !is_command(letter.code));
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
  return plain(text.substr(0, length_within(text, bytes_max)), false) + "…";
}

std::string plain_lines(std::string_view text) {
  return plain(text, true);
}

}  // namespace cpprun
