// SPDX-License-Identifier: BSD-3-Clause
#include "proto/text.h"

#include <doctest/doctest.h>

#include <string>

namespace plain_text_test {

using namespace cpprun;
using namespace std::string_literals;

TEST_CASE("letters of every language stay as they are") {
  for (const char* text : {"", "rank 0 on node-7", "Grüße, 世界 – 1 × 2…", "😀 ok", "a\tb"}) {
    CHECK(plain_line(text) == text);
  }
}

TEST_CASE("terminal control characters and line breaks are replaced") {
  CHECK(plain_line("a\ncpprund: job \"b\" is over\r\x1b[2J\x7f") ==
        "a?cpprund: job \"b\" is over??[2J?");
  CHECK(plain_line("\0"s) == "?");
  // CSI and NEL as one character each.
  CHECK(plain_line("\u009b2J\u0085") == "?2J?");
  CHECK(plain_line("a\u2028b\u2029c") == "a?b?c");
}

TEST_CASE("characters that reverse text or have no width are replaced") {
  CHECK(plain_line("user\u202Egnp.exe\u202C") == "user?gnp.exe?");
  CHECK(plain_line("\u200E\u200F\u061C\u2066\u2069") == "?????");
  CHECK(plain_line("no\u200Bde\u2060\u00AD\uFEFF") == "no?de???");
  CHECK(plain_line("tag\U000E0041\U000E0001") == "tag??");
  CHECK(plain_line("of my own \U000F0000\U0010FFFD") == "of my own ??");
}

TEST_CASE("invalid UTF-8 becomes one question mark per byte") {
  CHECK(plain_line("\x9b[2J") == "?[2J");
  CHECK(plain_line("\xff\xfe") == "??");
  // Truncated, overlong, a surrogate, beyond the last code point.
  CHECK(plain_line("\xe4\xb8") == "??");
  CHECK(plain_line("\xc0\x8a") == "??");
  CHECK(plain_line("\xe0\x80\x8a") == "???");
  CHECK(plain_line("\xed\xa0\x80") == "???");
  CHECK(plain_line("\xf4\x90\x80\x80") == "????");
}

TEST_CASE("a text that is too long is cut between two characters") {
  CHECK(plain_line("abcdef", 6) == "abcdef");
  CHECK(plain_line("abcdefg", 6) == "abcdef…");
  CHECK(plain_line("abcd\u4e16\u754c", 5) == "abcd…");
  CHECK(plain_line("abcd\u4e16\u754c", 7) == "abcd\u4e16…");
  CHECK(plain_line(std::string(9, '\x80'), 6) == "??????…");
}

TEST_CASE("a text of several lines keeps only its line breaks") {
  CHECK(plain_lines("first\nsecond\r\n\u009b1m") == "first\nsecond?\n?1m");
}

}  // namespace plain_text_test
