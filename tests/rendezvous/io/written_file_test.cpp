// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/written_file.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace written_file_test {

using namespace cpprun;

namespace {

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a written file that cannot be opened says why") {
  WrittenFile refused;
  CHECK(refused.open({.path = "/nowhere/x"}) == ENOENT);
}

TEST_CASE("a full log file is replaced by a new one, at the end of a line") {
  const auto directory =
      std::filesystem::temp_directory_path() / ("cpprun_rotated_" + std::to_string(::getpid()));
  std::filesystem::create_directories(directory);
  const auto path = (directory / "stdout.log").string();
  {
    WrittenFile file;
    REQUIRE(file.open({.path = path, .is_emptied = true, .bytes_max = 100}) == 0);
    const WrittenFile::Callbacks callbacks{.trouble = [](int error_number) { FAIL(error_number); }};
    for (int i = 10; i < 60; ++i) {
      const auto line = "line " + std::to_string(i) + "\n";
      CHECK(file.write(line + line + line, callbacks));
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
  WrittenFile endless;
  REQUIRE(endless.open({.path = path, .is_emptied = true, .bytes_max = 100}) == 0);
  CHECK(endless.write(std::string(1000, 'x'), {}));
  CHECK(std::filesystem::file_size(path) <= 100);
  std::filesystem::remove_all(directory);
}

TEST_CASE("a line waits for room on a full disk as long as its writer allows") {
  WrittenFile full;
  if (full.open({.path = "/dev/full", .on_error = WrittenFile::OnError::keep_lines}) != 0) {
    std::puts("skipped: there is no /dev/full here");
    return;
  }
  std::vector<int> troubles;
  int pauses = 0;
  CHECK_FALSE(full.write("line\n", {.trouble = [&](int number) { troubles.push_back(number); },
                                    .pause = [&] { return ++pauses < 3; }}));
  CHECK(pauses == 3);
  CHECK(troubles == std::vector<int>{ENOSPC});
}

}  // namespace written_file_test
