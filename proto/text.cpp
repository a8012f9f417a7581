// SPDX-License-Identifier: BSD-3-Clause
#include "proto/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cpprun {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

bool is_alike(std::string_view left, std::string_view right) {
  return std::ranges::equal(left, right, [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  });
}

std::vector<std::string_view> split(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(between);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text = text.substr(at + 1);
  }
}

std::optional<int> whole_number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return exact_number<int>(text);
}

std::string hex_of(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    text.push_back(digits[byte >> 4]);
    text.push_back(digits[byte & 0xF]);
  }
  return text;
}

std::optional<std::string> bytes_of_hex(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(digits.size() / 2);
  const auto value_of = [](char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    const char letter = static_cast<char>(digit | 0x20);
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
  };
  for (std::size_t at = 0; at < digits.size(); at += 2) {
    const int high = value_of(digits[at]);
    const int low = value_of(digits[at + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

std::string errno_text(int error_number) {
  return std::generic_category().message(error_number);
}

std::string connect_error_text(const std::error_code& error) {
  // By number, because Asio has a category of its own for these.
  const int number = error.value();
  if (number == ECONNREFUSED) {
    return "connection refused: nothing listens there (yet)";
  }
  if (number == EHOSTUNREACH || number == ENETUNREACH) {
    return error.message() + "; check the address and the routes of this machine";
  }
  return error.message();
}

namespace {

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {1, lead};
  // Rejects overlong forms.
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

void append_utf8(std::string& text, std::uint32_t code) {
  const auto append = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto append_rest = [&](std::uint32_t shift) { append(0x80U | (code >> shift & 0x3FU)); };
  if (code < 0x80U) {
    append(code);
  } else if (code < 0x800U) {
    append(0xC0U | code >> 6U), append_rest(0);
  } else if (code < 0x10000U) {
    append(0xE0U | code >> 12U), append_rest(6), append_rest(0);
  } else {
    append(0xF0U | code >> 18U), append_rest(12), append_rest(6), append_rest(0);
  }
}

std::size_t length_within(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text.size();
  std::size_t end = bytes_max;
  while (end > 0 && continues(text[end])) --end;
  // With that many continuation bytes there is no character start nearby.
  return bytes_max - end > 3 ? bytes_max : end;
}

namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Unicode's control characters, format characters (category Cf), and line and paragraph separators,
// in order. Line ends and tabs are handled by the caller.
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
  const auto is_common = [](char byte) { return byte >= ' ' && byte <= '~'; };
  if (std::ranges::all_of(text, is_common)) return std::string(text);
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

std::string roff_text(std::string_view text) {
  std::string safe;
  for (const char byte : text) {
    if (byte == '\\') {
      safe += "\\e";
    } else if (byte == '-') {
      safe += "\\-";
    } else {
      safe += byte;
    }
  }
  if (safe.starts_with('.') || safe.starts_with('\'')) safe.insert(0, "\\&");
  return safe;
}

std::string shell_word(std::string_view text) {
  std::string safe = "'";
  for (const char byte : text) safe += byte == '\'' ? std::string("'\\''") : std::string(1, byte);
  return safe + "'";
}

std::string zsh_text(std::string_view text) {
  std::string safe;
  for (const char byte : text) {
    if (byte == '[' || byte == ']' || byte == ':') safe += '\\';
    safe += byte;
  }
  return safe;
}

std::optional<std::uint64_t> byte_size(std::string_view text) {
  constexpr std::string_view letters = "kmgtpe";
  constexpr int bits_per_unit = 10;
  text = trimmed(text);
  const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = exact_number<std::uint64_t>(text.substr(0, end));
  if (!number) return std::nullopt;
  const auto unit = trimmed(text.substr(end));
  if (unit.empty() || is_alike(unit, "b")) return number;
  const auto power = letters.find(static_cast<char>(std::tolower(unit.front())));
  const auto rest = unit.substr(1);
  const bool is_unit = rest.empty() || is_alike(rest, "b") || is_alike(rest, "ib");
  if (power == std::string_view::npos || !is_unit) return std::nullopt;
  const int shift = bits_per_unit * (static_cast<int>(power) + 1);
  const std::uint64_t bytes = *number << shift;
  return bytes >> shift == *number ? std::optional(bytes) : std::nullopt;
}

namespace {

char plain_byte(char byte) {
  return byte == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
}

// The number of letters to replace, insert, remove or swap with a neighbor.
std::size_t edits_between(std::string_view left, std::string_view right) {
  std::vector<std::size_t> before(right.size() + 1);
  std::vector<std::size_t> last(right.size() + 1);
  std::vector<std::size_t> row(right.size() + 1);
  for (std::size_t at = 0; at <= right.size(); ++at) last[at] = at;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const bool is_same = plain_byte(left[i - 1]) == plain_byte(right[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (is_same ? 0 : 1)});
      const bool is_swapped = i > 1 && j > 1 &&
                              plain_byte(left[i - 1]) == plain_byte(right[j - 2]) &&
                              plain_byte(left[i - 2]) == plain_byte(right[j - 1]);
      if (is_swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[right.size()];
}

}  // namespace

const std::string* nearest(std::string_view typed, const std::vector<std::string>& names) {
  constexpr std::size_t typed_bytes_max = 64;  // longer than any name
  if (typed.size() > typed_bytes_max) return nullptr;
  const std::string* found = nullptr;
  std::size_t least = typed.size() / 3 + 1;  // the largest number of edits
  if (typed.starts_with("--")) least = (typed.size() - 2) / 3 + 1;
  for (const auto& name : names) {
    const auto edits = edits_between(typed, name);
    if (edits > least || (found != nullptr && edits == least)) continue;
    found = &name;
    least = edits;
  }
  return found;
}

std::string packed(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const auto& text : texts) {
    const std::uint64_t size = text.size();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes += text;
  }
  return bytes;
}

std::vector<std::string> unpacked(std::string_view bytes) {
  std::vector<std::string> texts;
  std::uint64_t size = 0;
  while (bytes.size() >= sizeof size) {
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes.remove_prefix(sizeof size);
    if (bytes.size() < size) break;
    texts.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return texts;
}

}  // namespace cpprun
