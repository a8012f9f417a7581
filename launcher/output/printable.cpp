// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/printable.h"

#include <algorithm>

#include "proto/text.h"

namespace cpprun {

namespace {

constexpr char escape = '\x1b';

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// The whole sequence that begins with this escape; what is not ended is as long as the text.
std::size_t sequence_length(std::string_view text) {
  if (text.size() < 2) return text.size();
  if (text[1] == '[') {
    std::size_t at = 2;
    while (at < text.size() && byte_at(text, at) >= 0x20U && byte_at(text, at) < 0x40U) ++at;
    // Anything else is no end of a sequence, and is looked at by itself.
    const bool ended = at < text.size() && byte_at(text, at) >= 0x40U && byte_at(text, at) < 0x7fU;
    return ended ? at + 1 : at;
  }
  // A text for the terminal itself (its title, a link), up to its end or that of the line.
  if (text[1] == ']' || text[1] == 'P' || text[1] == 'X' || text[1] == '^' || text[1] == '_') {
    std::size_t at = 2;
    while (at < text.size() && text[at] != '\a' && text[at] != escape && text[at] != '\n') ++at;
    const bool terminated = text.substr(std::min(at, text.size())).starts_with("\x1b\\");
    if (terminated) return at + 2;
    return at < text.size() && text[at] == '\a' ? at + 1 : at;
  }
  return byte_at(text, 1) >= 0x20U && byte_at(text, 1) < 0x7fU ? 2 : 1;
}

// Controls of the upper half, marks of direction, and ends of lines that only some know.
bool deceives(unsigned code) {
  return (code >= 0x80U && code < 0xa0U) || code == 0x61cU || code == 0x200eU || code == 0x200fU ||
         (code >= 0x2028U && code <= 0x202eU) || (code >= 0x2066U && code <= 0x2069U) ||
         code == 0xfeffU;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    if (text.front() == escape) {
      text.remove_prefix(sequence_length(text));
      continue;
    }
    const auto [length, code] = first_character(text);
    const auto character = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || deceives(code)) {
      result += '?';
    } else if (text.starts_with("\r\n")) {
      // The line's end follows.
    } else if ((code < 0x20U && code != '\n' && code != '\t') || code == 0x7fU) {
      result += ' ';
    } else {
      result += character;
    }
    text.remove_prefix(character.size());
  }
  return result;
}

}  // namespace cpprun
