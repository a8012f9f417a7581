// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/io/output_files.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "launcher/report/bounds.h"
#include "tests/launcher/io_probe.h"

namespace output_files_test {

using namespace cpprun;

namespace {

namespace fs = std::filesystem;

struct Directory {
  Directory() {
    std::string name = (fs::temp_directory_path() / "output_files_XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Directory() { fs::remove_all(path); }
  fs::path path;
};

std::string content(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void ignore(const std::string&) {}

bool finish(asio::io_context& context, io::OutputFiles& output_files) {
  bool done = false;
  output_files.finish_events([&] { done = true; });
  return probe::run_until(context, [&] { return done; });
}

}  // namespace

TEST_CASE("a file that cannot be written is rejected before anything starts, with its flag") {
  probe::Side side;
  const auto report = io::OutputFiles::open("/nowhere/report.json", "", side);
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().reason ==
        "--report: cannot write \"/nowhere/report.json\": No such file or directory");
  const auto events = io::OutputFiles::open("", "/", side);
  REQUIRE_FALSE(events.has_value());
  CHECK(events.error().reason == "--events: cannot write \"/\": Is a directory");
  CHECK_FALSE(io::OutputFiles::open("/tmp", "", side).has_value());
}

TEST_CASE("the check creates no file, and leaves an earlier report unchanged") {
  probe::Side side;
  const Directory directory;
  const auto path = directory.path / "report.json";
  CHECK(io::OutputFiles::open(path.string(), "", side));
  CHECK(fs::is_empty(directory.path));
  std::ofstream(path) << "old";
  CHECK(io::OutputFiles::open(path.string(), "", side));
  CHECK(content(path) == "old");
}

TEST_CASE("a file that is cpprun's own stdout is written to and never replaced") {
  probe::Side side;
  const Directory directory;
  const auto path = directory.path / "job.out";
  const int before = ::dup(STDOUT_FILENO);
  std::fflush(stdout);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ::dup2(file, STDOUT_FILENO);
  const auto link = directory.path / "stdout";
  fs::create_symlink(path, link);
  const auto output_files = io::OutputFiles::open(link.string(), "", side);
  const bool left = output_files && output_files->leave_report("the report");
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  ::close(file);
  CHECK(left);
  CHECK(fs::is_symlink(link));
  CHECK(content(path) == "the report");
}

TEST_CASE("the report replaces an earlier one as a whole") {
  probe::Side side;
  const Directory directory;
  const auto path = directory.path / "report.json";
  std::ofstream(path) << "an old and longer one";
  const auto output_files = io::OutputFiles::open(path.string(), "", side);
  REQUIRE(output_files.has_value());
  CHECK(output_files->leave_report("new"));
  CHECK(content(path) == "new");
}

TEST_CASE("a device is written to and never replaced") {
  probe::Side side;
  const auto output_files = io::OutputFiles::open("/dev/null", "", side);
  REQUIRE(output_files.has_value());
  CHECK(output_files->leave_report("words"));
  struct stat facts {};
  REQUIRE(::stat("/dev/null", &facts) == 0);
  CHECK(S_ISCHR(facts.st_mode));
}

TEST_CASE("events are appended, a line each, as they happen") {
  probe::Side side;
  const Directory directory;
  const auto path = directory.path / "events.jsonl";
  std::ofstream(path) << "earlier\n";
  asio::io_context context;
  auto output_files = io::OutputFiles::open("", path.string(), side);
  REQUIRE(output_files.has_value());
  output_files->begin({.job = "job7", .host = "node0", .executable = "./train"});
  output_files->serve(context, ignore);
  output_files->append(output_files->line(WallTime{}, events::Waiting{"for one"}));
  CHECK(probe::run_until(context, [&] { return content(path).ends_with("}\n"); }));
  CHECK(content(path).starts_with("earlier\n{\"time\":"));
  output_files->append(output_files->line(WallTime{}, events::Waiting{"for two"}));
  CHECK(finish(context, *output_files));
  const auto all = content(path);
  CHECK(all.find("for one") < all.find("for two"));
  CHECK(all.back() == '\n');
}

TEST_CASE("a job that begins replaces an earlier report at once") {
  probe::Side side;
  const Directory directory;
  const auto path = directory.path / "report.json";
  std::ofstream(path) << "an earlier end";
  auto output_files = io::OutputFiles::open(path.string(), "", side);
  REQUIRE(output_files.has_value());
  CHECK(output_files->announce_report("it runs"));
  CHECK(content(path) == "it runs");
  CHECK(output_files->announce_report("it ends"));
  CHECK(output_files->leave_report("ended", ".node0") == path.string());
  CHECK(content(path) == "ended");
  CHECK(std::distance(fs::directory_iterator(directory.path), {}) == 1);
}

TEST_CASE("two nodes with one report path both keep their report") {
  probe::Side side;
  const Directory directory;
  const auto path = (directory.path / "report.json").string();
  auto first = io::OutputFiles::open(path, "", side);
  auto second = io::OutputFiles::open(path, "", side);
  REQUIRE((first && second));
  CHECK(first->announce_report("first runs"));
  CHECK(second->announce_report("second runs"));
  CHECK(first->announce_report("first is being ended"));
  CHECK(content(path) == "second runs");
  CHECK(second->leave_report("second", ".node1") == path);
  CHECK(first->leave_report("first", ".node0") == path + ".node0");
  CHECK(content(path) == "second");
  CHECK(content(path + ".node0") == "first");
}

TEST_CASE("a report does not follow symbolic links") {
  probe::Side side;
  const Directory directory;
  const auto path = directory.path / "report.json";
  const auto precious = directory.path / "precious";
  std::ofstream(precious) << "precious";
  fs::create_symlink(precious, path.string() + ".draft");
  fs::create_symlink(precious, path);
  const auto output_files = io::OutputFiles::open(path.string(), "", side);
  REQUIRE(output_files.has_value());
  CHECK(output_files->leave_report("report"));
  CHECK(content(precious) == "precious");
  CHECK(content(path) == "report");
}

TEST_CASE("events for a pipe without a reader wait, and arrive in order") {
  probe::Side side;
  const Directory directory;
  const auto path = directory.path / "fifo";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const FileDescriptor reader{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  asio::io_context context;
  auto output_files = io::OutputFiles::open("", path.string(), side);
  REQUIRE(output_files.has_value());
  output_files->begin({.job = "job7", .host = "node0", .executable = "./train"});
  output_files->serve(context, ignore);
  std::string all;
  // Several times what a pipe holds, and less than the queue's limit.
  for (int i = 0; i < 3000; ++i) {
    const auto line =
        output_files->line(WallTime{}, events::Waiting{"for number " + std::to_string(i)});
    output_files->append(line);
    all += line;
  }
  std::string seen;
  std::string buffer(1 << 16, '\0');
  const auto read_some = [&] {
    for (auto got = ::read(reader.get(), buffer.data(), buffer.size()); got > 0;
         got = ::read(reader.get(), buffer.data(), buffer.size())) {
      seen.append(buffer.data(), static_cast<std::size_t>(got));
    }
  };
  CHECK(probe::run_until(context, [&] {
    read_some();
    return seen.size() == all.size();
  }));
  CHECK(seen == all);
}

TEST_CASE("events that exceed the queue are counted, and the count is written") {
  probe::Side side;
  const Directory directory;
  const auto path = directory.path / "fifo";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const FileDescriptor reader{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  asio::io_context context;
  auto output_files = io::OutputFiles::open("", path.string(), side);
  REQUIRE(output_files.has_value());
  output_files->begin({.job = "job7", .host = "node0", .executable = "./train"});
  output_files->serve(context, ignore);
  // Four of them fit, since the pipe has taken the beginning of the first.
  const std::string reason(bounds::events_waiting_bytes_max / 4, 'x');
  for (int i = 0; i < 6; ++i)
    output_files->append(output_files->line(WallTime{}, events::Waiting{reason}));
  std::string seen;
  std::string buffer(1 << 16, '\0');
  CHECK(probe::run_until(context, [&] {
    const auto got = ::read(reader.get(), buffer.data(), buffer.size());
    if (got > 0) seen.append(buffer.data(), static_cast<std::size_t>(got));
    return std::count(seen.begin(), seen.end(), '\n') == 4;
  }));
  output_files->append(output_files->line(WallTime{}, events::Waiting{"the last"}));
  const auto got = ::read(reader.get(), buffer.data(), buffer.size());
  REQUIRE(got > 0);
  const std::string_view last(buffer.data(), static_cast<std::size_t>(got));
  CHECK(last.find("\"event\":\"events_lost\"") < last.find("the last"));
  CHECK(last.find("\"count\":2") != std::string_view::npos);
}

TEST_CASE("a write error of the events is reported once") {
  probe::Side side;
  if (::access("/dev/full", W_OK) != 0) {
    std::puts("skipped: there is no /dev/full here");
    return;
  }
  asio::io_context context;
  auto output_files = io::OutputFiles::open("", "/dev/full", side);
  REQUIRE(output_files.has_value());
  output_files->begin({.job = "job7", .host = "node0", .executable = "./train"});
  std::vector<std::string> warnings;
  output_files->serve(context, [&](const std::string& sentence) { warnings.push_back(sentence); });
  output_files->append(output_files->line(WallTime{}, events::Waiting{"for one"}));
  output_files->append(output_files->line(WallTime{}, events::Waiting{"for two"}));
  CHECK(finish(context, *output_files));
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("--events: cannot write \"/dev/full\": No space left"));
}

TEST_CASE("the events end with a warning if the process that writes them is killed") {
  const Directory directory;
  probe::Side side;
  asio::io_context context;
  auto output_files = io::OutputFiles::open("", (directory.path / "events").string(), side);
  REQUIRE(output_files.has_value());
  std::vector<std::string> warnings;
  output_files->serve(context, [&](const std::string& sentence) { warnings.push_back(sentence); });
  REQUIRE_FALSE(side.pids().empty());
  side.end(side.pids().back());
  CHECK(probe::run_until(context, [&] { return !warnings.empty(); }));
  CHECK(warnings[0].ends_with("no further events are written; the job continues"));
  CHECK_FALSE(output_files->keeps_events());
  CHECK(finish(context, *output_files));
}

TEST_CASE("the report and the events are written while the event loop runs") {
  const Directory directory;
  probe::Side side;
  const auto path = directory.path / "report.json";
  asio::io_context context;
  auto output_files =
      io::OutputFiles::open(path.string(), (directory.path / "events").string(), side);
  REQUIRE(output_files.has_value());
  output_files->serve(context, ignore);
  output_files->announce_report_later("it ends");
  std::string left;
  output_files->leave_report_later("ended", ".node0",
                                   [&](const Result<std::string>& there) { left = *there; });
  CHECK(probe::run_until(context, [&] { return !left.empty(); }));
  CHECK(left == path.string());
  CHECK(content(path) == "ended");
}

}  // namespace output_files_test
