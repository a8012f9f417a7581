// SPDX-License-Identifier: BSD-3-Clause
#include "proto/text.h"

#include <doctest/doctest.h>

#include <string>

namespace utf8_test {

using namespace cpprun;

TEST_CASE("a character has its length in bytes and its code point") {
  CHECK(first_character("ab") == Utf8Character{1, 'a'});
  CHECK(first_character("\u00e4b") == Utf8Character{2, 0xE4});
  CHECK(first_character("\u20acb") == Utf8Character{3, 0x20AC});
  CHECK(first_character("\U0001F600b") == Utf8Character{4, 0x1F600});
}

TEST_CASE("an ambiguous encoding is not a character") {
  for (const char* text : {"\x80", "\xff", "\xe4\xb8", "\xe4z\xb8", "\xc0\x8a", "\xe0\x80\x8a",
                           "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    CHECK(first_character(text).bytes == 0);
  }
}

TEST_CASE("a text is cut between two characters, and anywhere if it is not UTF-8") {
  CHECK(length_within("abc", 3) == 3);
  CHECK(length_within("abcd", 3) == 3);
  CHECK(length_within("ab\u20ac", 3) == 2);
  CHECK(length_within("ab\u20ac", 4) == 2);
  CHECK(length_within("ab\u20ac", 5) == 5);
  CHECK(length_within("\U0001F600x", 4) == 4);
  CHECK(length_within(std::string(9, '\x80'), 6) == 6);
}

}  // namespace utf8_test
