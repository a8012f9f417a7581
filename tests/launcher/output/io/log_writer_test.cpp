// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/log_writer.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/launcher/io_probe.h"

namespace log_writer_test {

using namespace cpprun;
using namespace std::chrono_literals;
using probe::run_until;

namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Fixture {
  Fixture() {
    std::string name = (fs::temp_directory_path() / "log_writer_XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Fixture() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  fs::path path;
};

struct Desk {
  io::LogWriter::Callbacks callbacks() {
    return {.room = [this] { ++room; },
            .say = [this](const std::string& sentence) { said += sentence; },
            .ended = {}};
  }
  bool finish(io::LogWriter& writer) {
    writer.end();
    return run_until(context, [&] { return writer.ended(); });
  }
  asio::io_context context;
  probe::Side side;
  std::string said;
  int room = 0;
};

}  // namespace

TEST_CASE("output reaches its file, and a worker's own file is handed over") {
  const Fixture place;
  Desk desk;
  io::LogWriter writer(
      desk.context, desk.side,
      {{.path = place / "a"}, {.path = place / "b"}, {.path = place / "own", .passed_back = true}},
      60s, desk.callbacks());
  for (const auto& each : writer.opened()) CHECK(each.error_number == 0);
  writer.write(0, "one ");
  writer.write(1, "other");
  writer.write(0, "two");
  REQUIRE(writer.opened()[2].file);
  CHECK(::write(writer.opened()[2].file.get(), "mine", 4) == 4);
  CHECK(desk.finish(writer));
  CHECK(content(place / "a") == "one two");
  CHECK(content(place / "b") == "other");
  CHECK(content(place / "own") == "mine");
  CHECK(desk.said.empty());
}

TEST_CASE("a file that cannot be opened is reported, and the others are written") {
  const Fixture place;
  Desk desk;
  io::LogWriter writer(desk.context, desk.side,
                       {{.path = place / "no/such/folder"}, {.path = place / "b"}}, 60s,
                       desk.callbacks());
  CHECK(writer.opened()[0].error_number == ENOENT);
  CHECK(writer.opened()[1].error_number == 0);
  CHECK(desk.finish(writer));
}

TEST_CASE("files that are not open in time are reported as late, and not waited for") {
  const Fixture place;
  const auto fifo = place / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  Desk desk;
  // It has no reader: opening it for writing hangs as on a lost disk.
  io::LogWriter writer(desk.context, desk.side, {{.path = place / "a"}, {.path = fifo}}, 50ms,
                       desk.callbacks());
  CHECK(writer.opened()[0].error_number == 0);
  CHECK(writer.opened()[1].error_number == ETIMEDOUT);
}

TEST_CASE("the exit of the writer process is reported, and nothing waits for it") {
  const Fixture place;
  Desk desk;
  io::LogWriter writer(desk.context, desk.side, {{.path = place / "a"}}, 60s, desk.callbacks());
  writer.write(0, "one");
  REQUIRE(desk.side.pids().size() == 1);
  desk.side.end(desk.side.pids().front());
  CHECK(run_until(desk.context, [&] { return writer.ended(); }));
  CHECK(desk.said == "cpprun: warning: the process that writes the log files in \"" +
                         place.path.string() +
                         "\" exited; further output goes to the console only; the job continues\n");
  CHECK_FALSE(writer.full());
  CHECK(desk.room >= 1);
}

TEST_CASE("a full disk is reported once for each file") {
  if (::access("/dev/full", W_OK) != 0) {
    std::puts("skipped: there is no /dev/full here");
    return;
  }
  Desk desk;
  io::LogWriter writer(desk.context, desk.side, {{.path = "/dev/full"}}, 60s, desk.callbacks());
  writer.write(0, "one");
  writer.write(0, "two");
  CHECK(desk.finish(writer));
  CHECK(desk.said ==
        "cpprun: warning: cannot write \"/dev/full\": No space left on device; dropping output; "
        "the job continues\n");
}

}  // namespace log_writer_test
