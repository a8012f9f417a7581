// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Taking text apart: blanks, lists, numbers; and errno in words.

#include <charconv>
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

}  // namespace cpprun
