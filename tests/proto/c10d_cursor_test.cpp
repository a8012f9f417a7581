// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/codec.h"

#include <doctest/doctest.h>

#include "tests/proto/c10d_golden.h"

namespace c10d_cursor_test {

using namespace cpprun::c10d;
using golden::bytes_of;

TEST_CASE("an incomplete field reports its size and is read again") {
  const std::string bytes = bytes_of("03..00 'ab'");
  Cursor cursor(bytes, 0);
  std::string_view key;
  CHECK_FALSE(cursor.key(key));
  CHECK(cursor.needed() == 11);
  CHECK(cursor.at() == 0);
  CHECK(cursor.refusal().empty());
}

TEST_CASE("a list of fields is limited as a whole") {
  const std::string bytes = bytes_of("08..00 '12345678' 08..00 '12345678'");
  Cursor cursor(bytes, 0, 20);
  std::string_view value;
  CHECK(cursor.value(value));
  CHECK(value == "12345678");
  CHECK_FALSE(cursor.value(value));
  CHECK(cursor.refusal() == "more than 20 bytes in one piece");
}

}  // namespace c10d_cursor_test
