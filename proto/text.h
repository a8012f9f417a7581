// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Text functions: lists, numbers, sizes, UTF-8, errno messages, packing, and escaping for logs,
// manual pages and shells.

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace cpprun {

// Without leading and trailing blanks and line ends.
std::string_view trimmed(std::string_view text);

// Equality that ignores the case of ASCII letters.
bool is_alike(std::string_view left, std::string_view right);

// The parts between separators, including empty ones; at least one.
std::vector<std::string_view> split(std::string_view text, char between);

// A number written by a user or a script: nothing else but surrounding blanks and a leading plus.
// Scripts produce those, and Python's int() accepts them.
std::optional<int> whole_number(std::string_view text);

// A number written by a program: the number at the start of the text, whatever follows.
template <class N>
std::optional<N> leading_number(std::string_view text) {
  N number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} ? std::optional<N>(number) : std::nullopt;
}

// The same, but nothing may follow.
template <class N>
std::optional<N> exact_number(std::string_view text) {
  N number{};
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, number);
  return error == std::errc{} && end == stop ? std::optional<N>(number) : std::nullopt;
}

// The same for hexadecimal digits.
template <class N>
std::optional<N> hex_number(std::string_view text) {
  N number{};
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, number, 16);
  return error == std::errc{} && end == stop ? std::optional<N>(number) : std::nullopt;
}

// Bytes as two hexadecimal digits each, and back; empty if the text is invalid.
std::string hex_of(std::string_view bytes);
std::optional<std::string> bytes_of_hex(std::string_view digits);

// The message of an errno, such as "No such file or directory".
std::string errno_text(int error_number);
// The reason why a connection failed, with a hint where one is known.
std::string connect_error_text(const std::error_code& error);

// One UTF-8 character.
struct Utf8Character {
  std::size_t bytes = 0;  // 0: the text does not start with a character
  std::uint32_t code = 0;
  friend bool operator==(const Utf8Character&, const Utf8Character&) = default;
};

// The first character of a text, which must not be empty. Well-formed as Unicode defines it:
// overlong forms, surrogates and codes beyond the last one are invalid, since other programs would
// read them differently.
Utf8Character first_character(std::string_view text);

// Appends the character with that code, which is at most 0x1FFFFF.
void append_utf8(std::string& text, std::uint32_t code);

// The longest prefix of at most that many bytes that ends between two characters. Text that is not
// UTF-8 may be cut anywhere.
std::size_t length_within(std::string_view text, std::size_t bytes_max);

// Untrusted text for a log, a terminal or a report. A newline would forge a line, an escape
// sequence (ESC [, or U+009B alone) moves the cursor, U+202E reverses the rest of the line, and
// zero-width characters make two names look alike. All of these, and bytes that are not UTF-8,
// become '?'. Letters of all languages stay. A worker's own output, which often has colors, would
// be full of '?': `printable` of launcher/output removes such sequences instead.

// For one line of a log.
std::string plain_line(std::string_view text);
// The same with at most that many bytes; longer text is cut between two characters and ends in "…".
std::string plain_line(std::string_view text, std::size_t bytes_max);

// For a text that may have several lines, such as a traceback.
std::string plain_lines(std::string_view text);

// Text for a manual page, or for a script that a shell reads.

// For a manual page: nothing in the text acts as a man(7) request or escape, and '-' stays a minus.
std::string roff_text(std::string_view text);

// One word of a shell, in single quotes.
std::string shell_word(std::string_view text);

// For zsh's _arguments and _describe: brackets and colons are escaped.
std::string zsh_text(std::string_view text);

// What users type on a command line: sizes with units, and names with typos.

// A number of bytes: digits and a unit, a power of 1024 in any case: b, k, kb, kib, and so on up to
// e. Empty if it is invalid or does not fit.
std::optional<std::uint64_t> byte_size(std::string_view text);

// The name that was probably meant; null if none is close. "_" equals "-".
const std::string* nearest(std::string_view typed, const std::vector<std::string>& names);

// Serializes strings, for messages between our own processes. The strings may hold any bytes. Of
// truncated data, `unpacked` returns the strings that are complete.
std::string packed(const std::vector<std::string>& texts);
std::vector<std::string> unpacked(std::string_view bytes);

}  // namespace cpprun
