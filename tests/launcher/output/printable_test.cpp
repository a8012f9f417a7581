// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/lines.h"

#include <doctest/doctest.h>

namespace printable_test {

using namespace cpprun;

TEST_CASE("text stays unchanged, in any script, with its lines and tabs") {
  CHECK(printable("Traceback:\n\tZeile 1 – größer €\n") == "Traceback:\n\tZeile 1 – größer €\n");
  CHECK(printable("") == "");
}

TEST_CASE("control sequences are removed completely") {
  CHECK(printable("\x1b[1;31mRuntimeError\x1b[0m: bad") == "RuntimeError: bad");
  CHECK(printable("\x1b]0;rm -rf\atitle") == "title");
  CHECK(printable("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\") == "link");
  CHECK(printable("\x1b"
                  "cafter a reset") == "after a reset");
  CHECK(printable("open \x1b[31") == "open ");
  CHECK(printable("open \x1b") == "open ");
  CHECK(printable("\x1b]0;without an end\nnext line") == "\nnext line");
}

TEST_CASE(
    "control characters become blanks, and half characters and bidi overrides question marks") {
  CHECK(printable(std::string_view("a\0b\bc\x7f", 6)) == "a b c ");
  CHECK(printable("windows\r\nprogress 10%\rprogress 20%") == "windows\nprogress 10% progress 20%");
  CHECK(printable("\xff\xe2\x82") == "???");
  CHECK(printable("\xc2\x9b"
                  "31m") == "?31m");
  CHECK(printable("abc\xe2\x80\xae"
                  "cba") == "abc?cba");
}

}  // namespace printable_test
