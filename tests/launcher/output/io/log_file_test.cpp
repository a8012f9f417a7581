// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/log_writer.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace log_file_test {

using namespace cpprun;

namespace {

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a log file is written only if it has a path") {
  io::LogFile none;
  CHECK(none.open("", true));
  CHECK_FALSE(bool(none));
  io::LogFile refused;
  CHECK_FALSE(refused.open("/nowhere/x", true));
  CHECK(errno == ENOENT);
}

TEST_CASE("a full log file is replaced by a new one, at the end of a line") {
  const auto directory =
      std::filesystem::temp_directory_path() / ("cpprun_rotated_" + std::to_string(::getpid()));
  std::filesystem::create_directories(directory);
  const auto path = (directory / "stdout.log").string();
  {
    io::LogFile file;
    REQUIRE(file.open(path, true, 100));
    const auto report_error = [](int error_number) { FAIL(error_number); };
    for (int i = 10; i < 60; ++i) {
      const auto line = "line " + std::to_string(i) + "\n";
      file.write(line + line + line, report_error);
    }
  }
  const auto now = content(path);
  const auto before = content(path + ".1");
  CHECK(now.size() <= 100);
  CHECK(before.size() <= 100);
  CHECK(before.ends_with("\n"));
  CHECK(now.ends_with("\n"));
  CHECK((before + now).ends_with("line 58\nline 59\nline 59\nline 59\n"));
  CHECK(std::distance(std::filesystem::directory_iterator(directory), {}) == 2);
  io::LogFile endless;
  REQUIRE(endless.open(path, true, 100));
  endless.write(std::string(1000, 'x'), [](int) {});
  CHECK(std::filesystem::file_size(path) <= 100);
  std::filesystem::remove_all(directory);
}

}  // namespace log_file_test
