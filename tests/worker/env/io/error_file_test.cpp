// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/error_report.h"

#include <doctest/doctest.h>

#include "tests/worker/temporary_directory.h"

namespace error_file_test {

using namespace cpprun;
using testing::TemporaryDirectory;

TEST_CASE("an error file appears complete and leaves no other file") {
  const TemporaryDirectory directory;
  const auto written = write_error_file(directory.file("error.json"), "{\"a\":1}");
  REQUIRE(written.has_value());
  CHECK(*written == ErrorFile::written);
  CHECK(directory.read("error.json") == "{\"a\":1}");
  CHECK(directory.entries() == 1);
}

TEST_CASE("the first error is kept") {
  const TemporaryDirectory directory;
  REQUIRE(write_error_file(directory.file("error.json"), "first").has_value());
  const auto second = write_error_file(directory.file("error.json"), "second");
  REQUIRE(second.has_value());
  CHECK(*second == ErrorFile::already_there);
  CHECK(directory.read("error.json") == "first");
  CHECK(directory.entries() == 1);
}

TEST_CASE("a directory that does not exist is an error that names the file") {
  const TemporaryDirectory directory;
  const auto written = write_error_file(directory.file("no/error.json"), "x");
  REQUIRE_FALSE(written.has_value());
  CHECK(written.error().reason.find("no/error.json\": No such file") != std::string::npos);
}

TEST_CASE("the first error is kept in a signal handler too") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("error.json");
  write_error_file_in_signal(path.c_str(), directory.file("t").c_str(), "one", 3);
  write_error_file_in_signal(path.c_str(), directory.file("t").c_str(), "two", 3);
  CHECK(directory.read("error.json") == "one");
  CHECK(directory.entries() == 1);
}

}  // namespace error_file_test
