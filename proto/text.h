// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Functions on text: lists, numbers, sizes and UTF-8 taken apart, errno as a sentence, and text
// made safe for logs, manual pages and shells.

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace cpprun {

// Without the blanks and line ends around it.
std::string_view trimmed(std::string_view text);

// Whether they are the same but for the case of ASCII's letters.
bool is_alike(std::string_view left, std::string_view right);

// The parts between separators, empty ones too; at least one.
std::vector<std::string_view> split(std::string_view text, char between);

// What a person or a script wrote: a number and nothing else, but for blanks around it and a plus
// before it. What scripts paste together has them, and Python's int() takes them.
std::optional<int> whole_number(std::string_view text);

// What a machine wrote: the number that begins the text, whatever follows it.
template <class N>
std::optional<N> leading_number(std::string_view text) {
  N number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} ? std::optional<N>(number) : std::nullopt;
}

// The same where nothing follows.
template <class N>
std::optional<N> exact_number(std::string_view text) {
  N number{};
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, number);
  return error == std::errc{} && end == stop ? std::optional<N>(number) : std::nullopt;
}

// The same of digits to the base 16.
template <class N>
std::optional<N> hex_number(std::string_view text) {
  N number{};
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, number, 16);
  return error == std::errc{} && end == stop ? std::optional<N>(number) : std::nullopt;
}

// Bytes of any kind as two digits each, and back; nothing where that is not what they are.
std::string hex_of(std::string_view bytes);
std::optional<std::string> bytes_of_hex(std::string_view digits);

// What an errno says, as "No such file or directory".
std::string errno_text(int error_number);

// UTF-8, character by character.
struct Utf8Character {
  std::size_t bytes = 0;  // 0: the text does not begin with a character
  std::uint32_t code = 0;
  friend bool operator==(const Utf8Character&, const Utf8Character&) = default;
};

// The character that begins a text, which is not empty. Well formed, as Unicode has it: what is
// written longer than it need be, half a pair and what is beyond the last one are no characters,
// since others would read them as something else.
Utf8Character first_character(std::string_view text);

// How much of the text to keep so that it has no more than so many bytes and ends between two
// characters. Where there are no characters it may end anywhere.
std::size_t length_within(std::string_view text, std::size_t bytes_max);

// Untrusted text on its way into a log, onto a terminal or into a report. A newline in it would
// forge a line, an escape (ESC [, or U+009B alone) moves the cursor, U+202E reverses the rest of
// the line, and zero-width characters make two names look alike. All of that becomes '?', and so
// does every byte that is not UTF-8. Letters of all languages stay. A worker's own words, which
// are full of colours, would be full of '?': `printable` of launcher/output drops these instead.

// One line of a log.
std::string plain_line(std::string_view text);
// The same of at most so many bytes; what is longer is cut between two characters and ends in "…".
std::string plain_line(std::string_view text, std::size_t bytes_max);

// A text that may have several lines, such as a trace-back.
std::string plain_lines(std::string_view text);

// Text on its way into a manual page or into a script that a shell reads.

// Words of a page: nothing in them is a command of man(7), nor a hyphen where a dash was typed.
std::string roff_text(std::string_view text);

// One word of a shell, between single quotes.
std::string shell_word(std::string_view text);

// What zsh's _arguments and _describe take for a text: none of its brackets and colons ends it.
std::string zsh_text(std::string_view text);

// What people type on a command line: sizes with units, and names with slips.

// A number of bytes: digits, and a unit that is a power of 1024 whatever its case: b, k, kb, kib,
// and so on up to e. Nothing where it does not fit.
std::optional<std::uint64_t> byte_size(std::string_view text);

// The name that was probably meant by what was typed; nullptr: none is near. "_" is "-".
const std::string* nearest(std::string_view typed, const std::vector<std::string>& names);

}  // namespace cpprun
