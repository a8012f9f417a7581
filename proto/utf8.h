// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// UTF-8, character by character.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cpprun {

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

}  // namespace cpprun
