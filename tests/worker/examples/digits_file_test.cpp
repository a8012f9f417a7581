// SPDX-License-Identifier: BSD-3-Clause
#include "worker/examples/digits_file.h"

#include <doctest/doctest.h>

#include <array>
#include <fstream>

#include "tests/worker/temporary_directory.h"

namespace digits_file_test {

using namespace cpprun::examples;

namespace {

std::string number(std::uint32_t value) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) {
    bytes.push_back(static_cast<char>((value >> shift) & 0xff));
  }
  return bytes;
}

// Two images of 1 x 3.
std::string good_file() {
  return "DIGITS01" + number(2) + number(1) + number(3) + number(10) +
         std::string("\x00\x10\x08\x01\x02\x03\x09\x04", 8);
}

std::string reason_of(const std::string& bytes) {
  const auto digits = parse_digits(bytes, "d.bin");
  return digits ? "accepted" : digits.error().reason;
}

}  // namespace

TEST_CASE("a whole file is read") {
  const auto digits = parse_digits(good_file(), "d.bin");
  REQUIRE(digits.has_value());
  CHECK(digits->count == 2);
  CHECK(digits->rows == 1);
  CHECK(digits->columns == 3);
  CHECK(digits->classes == 10);
  CHECK(digits->pixels == std::vector<std::uint8_t>{0, 16, 8, 1, 2, 3});
  CHECK(digits->labels == std::vector<std::uint8_t>{9, 4});
}

TEST_CASE("a file of another format is rejected with its name") {
  CHECK(reason_of("GIF89a") == "invalid digits file \"d.bin\": at offset 0: expected \"DIGITS01\"");
  CHECK(reason_of("") == "invalid digits file \"d.bin\": at offset 0: expected \"DIGITS01\"");
}

TEST_CASE("a file that is truncated or too long is rejected with the sizes") {
  CHECK(reason_of(good_file().substr(0, 20)) ==
        "invalid digits file \"d.bin\": at offset 20: expected a header of 24 bytes");
  CHECK(reason_of(good_file().substr(0, 30)) ==
        "invalid digits file \"d.bin\": at offset 30: wrong file size: 2 images of 1 x 3 need 32 "
        "bytes, the file has 30");
  CHECK(reason_of(good_file() + "x").find("at offset 32: wrong file size") != std::string::npos);
}

TEST_CASE("impossible numbers are rejected with their position") {
  std::string pixel = good_file();
  pixel[25] = 17;
  CHECK(reason_of(pixel) ==
        "invalid digits file \"d.bin\": at offset 25: expected a pixel from 0 to 16, not 17");
  std::string label = good_file();
  label[31] = 10;
  CHECK(reason_of(label) ==
        "invalid digits file \"d.bin\": at offset 31: expected a label below 10, not 10");
  CHECK(reason_of("DIGITS01" + number(0xffffffff) + number(1) + number(1) + number(10)) ==
        "invalid digits file \"d.bin\": at offset 8: invalid number of images");
  CHECK(reason_of("DIGITS01" + number(1) + number(0) + number(1) + number(10)) ==
        "invalid digits file \"d.bin\": at offset 12: invalid number of rows");
  CHECK(reason_of("DIGITS01" + number(1) + number(1) + number(65) + number(10)) ==
        "invalid digits file \"d.bin\": at offset 16: invalid number of columns");
  CHECK(reason_of("DIGITS01" + number(1) + number(1) + number(1) + number(257)) ==
        "invalid digits file \"d.bin\": at offset 20: invalid number of classes");
}

TEST_CASE("the digits in the repository are 1797 images with every class among them") {
  const auto digits = read_digits(find_digits());
  REQUIRE(digits.has_value());
  CHECK(digits->count == 1797);
  CHECK(digits->rows == 8);
  std::array<int, 10> count_of{};
  for (const std::uint8_t label : digits->labels) ++count_of.at(label);
  // As scikit-learn's documentation lists them.
  CHECK(count_of == std::array<int, 10>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
}

TEST_CASE("a missing file is named") {
  const cpprun::testing::TemporaryDirectory directory;
  const auto digits = read_digits(directory.file("none.bin"));
  REQUIRE_FALSE(digits.has_value());
  CHECK(digits.error().reason.find("none.bin\": No such file") != std::string::npos);
}

}  // namespace digits_file_test
