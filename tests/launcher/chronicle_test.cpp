#include "launcher/io/chronicle.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

using namespace cpprun;

namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "chronicle_XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

std::string content(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("what cannot be written is refused before anything starts, by its flag") {
  const auto report = io::Chronicle::open("/nowhere/report.json", "");
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().reason ==
        "--report: cannot write \"/nowhere/report.json\": No such file or directory");
  const auto events = io::Chronicle::open("", "/");
  REQUIRE_FALSE(events.has_value());
  CHECK(events.error().reason == "--events: cannot write \"/\": Is a directory");
  CHECK_FALSE(io::Chronicle::open("/tmp", "").has_value());
}

TEST_CASE("trying leaves nothing behind, and an earlier report as it was") {
  const Folder folder;
  const auto path = folder.path / "report.json";
  CHECK(io::Chronicle::open(path.string(), ""));
  CHECK(fs::is_empty(folder.path));
  std::ofstream(path) << "old";
  CHECK(io::Chronicle::open(path.string(), ""));
  CHECK(content(path) == "old");
}

TEST_CASE("the file that is our own stdout is written to and never replaced") {
  const Folder folder;
  const auto path = folder.path / "job.out";
  const int before = ::dup(STDOUT_FILENO);
  std::fflush(stdout);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ::dup2(file, STDOUT_FILENO);
  const auto link = folder.path / "stdout";
  fs::create_symlink(path, link);
  const auto chronicle = io::Chronicle::open(link.string(), "");
  const bool left = chronicle && chronicle->leave_report("the report");
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  ::close(file);
  CHECK(left);
  CHECK(fs::is_symlink(link));
  CHECK(content(path) == "the report");
}

TEST_CASE("the report takes the place of an earlier one as a whole") {
  const Folder folder;
  const auto path = folder.path / "report.json";
  std::ofstream(path) << "an old and longer one";
  const auto chronicle = io::Chronicle::open(path.string(), "");
  REQUIRE(chronicle.has_value());
  CHECK(chronicle->leave_report("new"));
  CHECK(content(path) == "new");
}

TEST_CASE("a device is written to and never replaced") {
  const auto chronicle = io::Chronicle::open("/dev/null", "");
  REQUIRE(chronicle.has_value());
  CHECK(chronicle->leave_report("words"));
  struct stat facts {};
  REQUIRE(::stat("/dev/null", &facts) == 0);
  CHECK(S_ISCHR(facts.st_mode));
}

TEST_CASE("events are appended, a line each, as they happen") {
  const Folder folder;
  const auto path = folder.path / "events.jsonl";
  std::ofstream(path) << "earlier\n";
  auto chronicle = io::Chronicle::open("", path.string());
  REQUIRE(chronicle.has_value());
  chronicle->begin({.job = "job7", .host = "node0", .executable = "./train"});
  CHECK(chronicle->append(chronicle->line(journal::Waiting{"for one"})));
  CHECK(content(path).starts_with("earlier\n{\"time\":"));
  CHECK(chronicle->append(chronicle->line(journal::Waiting{"for two"})));
  const auto all = content(path);
  CHECK(all.find("for one") < all.find("for two"));
  CHECK(all.back() == '\n');
}

TEST_CASE("events that cannot be written any more are told once") {
  auto chronicle = io::Chronicle::open("", "/dev/full");
  REQUIRE(chronicle.has_value());
  chronicle->begin({.job = "job7", .host = "node0", .executable = "./train"});
  const auto noted = chronicle->append(chronicle->line(journal::Waiting{"for one"}));
  REQUIRE_FALSE(noted.has_value());
  CHECK(noted.error().reason.starts_with("--events: cannot write \"/dev/full\": No space left"));
  CHECK(chronicle->append(chronicle->line(journal::Waiting{"for two"})));
}
