// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/bounds.h"
#include "rendezvous/store/stored_value.h"

#include <doctest/doctest.h>

#include <string>

namespace counter_text_test {

using namespace cpprun;

TEST_CASE("a counter is parsed as leniently as upstream does") {
  CHECK(parse_counter("12") == 12);
  CHECK(parse_counter(" \t-7abc") == -7);
  CHECK(parse_counter("+4") == 4);
  CHECK(parse_counter("00000000000000000007") == 7);
  CHECK(parse_counter("-9223372036854775808") == INT64_MIN);
}

TEST_CASE("an invalid or too long number is rejected") {
  for (const std::string& text :
       {std::string("abc"), std::string(), std::string("+-1"), std::string("  "),
        std::string("99999999999999999999"), std::string("-")}) {
    CAPTURE(text);
    CHECK_FALSE(parse_counter(text));
  }
}

TEST_CASE("blanks and digits are limited, so the rest of a value is never read") {
  const std::string blanks(bounds::store_number_blanks_max, ' ');
  const std::string digits(bounds::store_number_digits_max - 1, '0');
  CHECK(parse_counter(blanks + "+" + digits + "7") == 7);
  CHECK((blanks + "+" + digits + "7").size() < counter_bytes_max);
  CHECK_FALSE(parse_counter(blanks + " 7"));
  CHECK_FALSE(parse_counter(digits + "07"));
}

}  // namespace counter_text_test
