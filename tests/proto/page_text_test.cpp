// SPDX-License-Identifier: BSD-3-Clause
#include "proto/text.h"

#include <doctest/doctest.h>

namespace page_text_test {

using namespace cpprun;

TEST_CASE("text of a man page has no man(7) commands, and its dashes are not hyphens") {
  CHECK(roff_text("a --flag") == "a \\-\\-flag");
  CHECK(roff_text("C:\\n") == "C:\\en");
  CHECK(roff_text(".SH") == "\\&.SH");
  CHECK(roff_text("'br") == "\\&'br");
}

TEST_CASE("a quoted shell word is one word") {
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("don't") == "'don'\\''t'");
  CHECK(shell_word("") == "''");
}

TEST_CASE("zsh does not end a description early") {
  CHECK(zsh_text("Why [it] is: so") == "Why \\[it\\] is\\: so");
}

}  // namespace page_text_test
