// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/scribe.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/output/io/log_file.h"
#include "tests/launcher/io_probe.h"

using namespace cpprun;
using probe::Pipe;
using probe::run_until;

namespace {

struct Desk {
  explicit Desk(int file)
      : scribe(io::Scribe::begin(context, file,
                                 {.trouble = [this](int number) { troubles.push_back(number); },
                                  .ended = [this] { ended = true; }})) {}
  void write(const std::string& text) {
    REQUIRE(::write(scribe->pipe(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  bool await_end() {
    scribe->end();
    return run_until(context, [this] { return ended; });
  }

  asio::io_context context;
  std::vector<int> troubles;
  bool ended = false;
  std::unique_ptr<io::Scribe> scribe;
};

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("when a scribe has ended everything is in its file, in order") {
  const auto path =
      std::filesystem::temp_directory_path() / ("cpprun_scribe_" + std::to_string(::getpid()));
  std::string all;
  {
    std::FILE* const file = std::fopen(path.c_str(), "w");
    Desk desk(::fileno(file));
    for (int i = 0; i < 5000; ++i) {
      const auto line = "line " + std::to_string(i) + "\n";
      desk.write(line);
      all += line;
    }
    CHECK(desk.await_end());
    CHECK(desk.troubles.empty());
    std::fclose(file);
  }
  CHECK(content(path) == all);
  std::filesystem::remove(path);
}

TEST_CASE("a file that takes nothing is told once, and its scribe goes on") {
  const FileDescriptor full{::open("/dev/full", O_WRONLY | O_CLOEXEC)};
  if (!full) {
    std::puts("skipped: there is no /dev/full here");
    return;
  }
  Desk desk(full.get());
  for (int i = 0; i < 100; ++i) desk.write("words\n");
  CHECK(desk.await_end());
  CHECK(desk.troubles == std::vector<int>{ENOSPC});
}

TEST_CASE("a scribe that hangs holds up nobody, not even whoever leaves it behind") {
  // A pipe that is not read hangs a writer as a lost disk does.
  Pipe stuck;
  {
    Desk desk(stuck.in());
    std::string much(4096, 'x');
    // More than the pipe behind it has room for, and less than both.
    for (int i = 0; i < 20; ++i) desk.write(much);
    desk.scribe->end();
    CHECK_FALSE(desk.ended);
  }
  stuck.close_in();
  CHECK(stuck.read_all().size() == 20 * 4096);
}

TEST_CASE("a log file is kept only where it has a path") {
  io::LogFile none;
  CHECK(none.open("", true));
  CHECK_FALSE(bool(none));
  io::LogFile refused;
  CHECK_FALSE(refused.open("/nowhere/x", true));
  CHECK(errno == ENOENT);
}

TEST_CASE("a log file that is full gives its place to a new one, at the end of a line") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("cpprun_rotated_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto path = (folder / "stdout.log").string();
  {
    io::LogFile file;
    REQUIRE(file.open(path, true, 100));
    const auto complain = [](const std::string& sentence) { FAIL(sentence); };
    for (int i = 10; i < 60; ++i) {
      const auto line = "line " + std::to_string(i) + "\n";
      file.write(line + line + line, complain);
    }
  }
  const auto now = content(path);
  const auto before = content(path + ".1");
  CHECK(now.size() <= 100);
  CHECK(before.size() <= 100);
  CHECK(before.ends_with("\n"));
  CHECK(now.ends_with("\n"));
  CHECK((before + now).ends_with("line 58\nline 59\nline 59\nline 59\n"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 2);
  io::LogFile endless;
  REQUIRE(endless.open(path, true, 100));
  endless.write(std::string(1000, 'x'), [](const std::string&) {});
  CHECK(std::filesystem::file_size(path) <= 100);
  std::filesystem::remove_all(folder);
}
