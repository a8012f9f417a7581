// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/file_writer_process.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/launcher/io_probe.h"

namespace file_writer_process_test {

using namespace cpprun;
using probe::Pipe;
using probe::run_until;

namespace {

struct Desk {
  explicit Desk(int file)
      : file_writer(FileWriterProcess::begin(
            side, {{.descriptor = file, .on_error = WrittenFile::OnError::mark_gap}})) {
    file_writer->listen(context,
                        {.trouble = [this](std::size_t, int number) { troubles.push_back(number); },
                         .ended = [this] { ended = true; }});
  }
  void write(const std::string& text) {
    REQUIRE(::write(file_writer->pipe(), text.data(), text.size()) ==
            static_cast<ssize_t>(text.size()));
  }
  bool await_end() {
    file_writer->end();
    return run_until(context, [this] { return ended; });
  }

  asio::io_context context;
  HelperProcesses side;
  std::vector<int> troubles;
  bool ended = false;
  std::unique_ptr<FileWriterProcess> file_writer;
};

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("when a file writer process has exited, its file is complete and in order") {
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

TEST_CASE("a file that cannot be written is reported once, and its writer continues") {
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

TEST_CASE("a hanging file writer blocks no process, not even when it is abandoned") {
  // A pipe without a reader hangs a writer like a lost disk.
  Pipe stuck;
  {
    Desk desk(stuck.in());
    std::string much(4096, 'x');
    // More than fits in the pipe behind it, and less than fits in both.
    for (int i = 0; i < 20; ++i) desk.write(much);
    desk.file_writer->end();
    CHECK_FALSE(desk.ended);
  }
  stuck.close_in();
  CHECK(stuck.read_all().size() == 20 * 4096);
}

TEST_CASE("a file writer is waited for up to a limit, also without an event loop") {
  using namespace std::chrono_literals;
  Pipe file;
  Desk desk(file.in());
  desk.write("words");
  desk.file_writer->finish(60s);
  file.close_in();
  CHECK(file.read_all() == "words");
  Pipe stuck;
  Desk hung(stuck.in());
  for (int i = 0; i < 20; ++i) hung.write(std::string(4096, 'x'));
  hung.file_writer->finish(10ms);
  CHECK_FALSE(hung.ended);
}

}  // namespace file_writer_process_test
