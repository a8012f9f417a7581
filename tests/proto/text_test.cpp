// SPDX-License-Identifier: BSD-3-Clause
#include "proto/text.h"

#include <doctest/doctest.h>

#include <cstdint>

namespace text_test {

using namespace cpprun;

TEST_CASE("a number may have blanks around it and a plus before it, like Python's") {
  CHECK(whole_number(" 2") == 2);
  CHECK(whole_number("2 \n") == 2);
  CHECK(whole_number("+2") == 2);
  CHECK(whole_number(" -2 ") == -2);
  CHECK_FALSE(whole_number("+-2").has_value());
  CHECK_FALSE(whole_number("++2").has_value());
  CHECK_FALSE(whole_number("2 2").has_value());
  CHECK_FALSE(whole_number(" ").has_value());
}

TEST_CASE("a list has one part more than separators, and a number consists of digits") {
  CHECK(split("a,,b", ',') == std::vector<std::string_view>{"a", "", "b"});
  CHECK(split("", ',') == std::vector<std::string_view>{""});
  CHECK(whole_number("-3") == -3);
  CHECK_FALSE(whole_number("3 0"));
  CHECK_FALSE(whole_number(""));
}

TEST_CASE("a number is parsed from the whole text or from a prefix, and never overflows") {
  CHECK(exact_number<int>("42") == 42);
  CHECK(exact_number<int>("-1") == -1);
  CHECK(exact_number<double>("0.5") == 0.5);
  for (const char* text : {"", " 42", "42 ", "+42", "42x", "99999999999"}) {
    CHECK_FALSE(exact_number<int>(text));
  }
  CHECK(leading_number<int>("202 0x7f00") == 202);
  CHECK_FALSE(leading_number<int>("running"));
  CHECK_FALSE(leading_number<int>(""));
  CHECK_FALSE(leading_number<int>("99999999999 and more"));
}

TEST_CASE("a hexadecimal number has only its digits") {
  CHECK(hex_number<int>("3043") == 0x3043);
  CHECK(hex_number<std::uint32_t>("ffffffff") == 0xFFFFFFFF);
  for (const char* text : {"", "0x10", "10 ", "g", "1ffffffff"}) {
    CHECK_FALSE(hex_number<std::uint32_t>(text));
  }
}

TEST_CASE("bytes of any kind survive a round trip through hexadecimal digits") {
  const std::string bytes("\0a\xFF\n", 4);
  CHECK(hex_of(bytes) == "0061ff0a");
  CHECK(bytes_of_hex("0061ff0a") == bytes);
  CHECK(bytes_of_hex("0061FF0A") == bytes);
  CHECK(bytes_of_hex("") == "");
  for (const char* digits : {"0", "0g", "+1", "-1", " 1", "006"}) {
    CAPTURE(digits);
    CHECK_FALSE(bytes_of_hex(digits));
  }
}

TEST_CASE("texts are compared without regard to the case of letters") {
  CHECK(is_alike("Bearer", "bEARER"));
  CHECK(is_alike("", ""));
  CHECK_FALSE(is_alike("Bearer", "Bearers"));
  CHECK_FALSE(is_alike("a-b", "a_b"));
}

TEST_CASE("an errno has a description") {
  CHECK(errno_text(2) == "No such file or directory");
  CHECK(errno_text(28) == "No space left on device");
}

}  // namespace text_test
