// SPDX-License-Identifier: BSD-3-Clause
#include "proto/text.h"

#include <doctest/doctest.h>

namespace packed_texts_test {

using namespace cpprun;

TEST_CASE("packed texts are unpacked in order, unchanged") {
  const std::vector<std::string> texts = {"one", "", std::string("\0\n\xff", 3)};
  CHECK(unpacked(packed(texts)) == texts);
  CHECK(unpacked(packed({"one"}) + packed({"two"})) == std::vector<std::string>{"one", "two"});
  CHECK(unpacked("").empty());
}

TEST_CASE("complete texts of a truncated pack are unpacked") {
  const auto bytes = packed({"one", "two"});
  CHECK(unpacked(bytes.substr(0, bytes.size() - 1)) == std::vector<std::string>{"one"});
  CHECK(unpacked(bytes.substr(0, 4)).empty());
  CHECK(unpacked(std::string(8, '\xff') + "x").empty());
}

}  // namespace packed_texts_test
