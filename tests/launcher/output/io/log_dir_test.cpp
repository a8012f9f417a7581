// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/log_dir.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "launcher/output/bounds.h"

namespace log_dir_test {

using namespace cpprun;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

// A directory of the test's own that is TMPDIR, too.
struct Fixture {
  fs::path root = fs::temp_directory_path() / ("cpprun_log_dir_" + std::to_string(::getpid()));
  Environment environment{{"TMPDIR", root.string()}};
  Fixture() { fs::create_directories(root); }
  ~Fixture() { fs::remove_all(root); }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  long entries() const { return std::distance(fs::directory_iterator(root), {}); }
};

WorkerSpec spec_in(const std::string& directory) {
  WorkerSpec spec;
  spec.log_directory = directory;
  return spec;
}

WorkerSpec spec_with(const std::string& error_file) {
  WorkerSpec spec;
  spec.error_file = error_file;
  return spec;
}

}  // namespace

TEST_CASE("without logs the private directory is removed, unless its removal is handed over") {
  const Fixture place;
  const auto directory = (place.root / "private").string();
  const auto error_file = directory + "/attempt_0_0_error.json";
  {
    fs::create_directory(directory);
    auto directories = io::LogDir::make(Config{}, place.environment, directory);
    REQUIRE(directories.has_value());
    CHECK(directories->run_directory().empty());
    CHECK(directories->prepare({spec_with(error_file)}));
    std::ofstream(error_file) << "{}";
    const io::LogDir moved = std::move(*directories);
    CHECK(fs::exists(error_file));
  }
  CHECK(place.entries() == 0);
  {
    fs::create_directory(directory);
    auto directories = io::LogDir::make(Config{}, place.environment, directory);
    REQUIRE(directories.has_value());
    directories->hand_over_directory();
  }
  CHECK(place.entries() == 1);
}

TEST_CASE("an earlier attempt's error file is removed for a later attempt of that number") {
  const Fixture place;
  HelperProcesses side;
  auto directories = io::LogDir::make(Config{}, place.environment, place.root, side);
  REQUIRE(directories.has_value());
  const auto spec = spec_with(place.root / "attempt_0_0_error.json");
  REQUIRE(directories->prepare({spec}, side, 60s).has_value());
  std::ofstream(spec.error_file) << "{}";
  REQUIRE(directories->prepare({spec}, side, 60s).has_value());
  CHECK_FALSE(fs::exists(spec.error_file));
}

TEST_CASE("only a job without logs has a private directory, with a new name each time") {
  const Fixture place;
  const auto directories = io::private_directories(Config{}, place.environment);
  REQUIRE(directories.size() == 2);
  CHECK(directories[0].starts_with(place.root.string() + "/cpprun_"));
  CHECK(directories[1].starts_with("/tmp/cpprun_"));
  CHECK(directories != io::private_directories(Config{}, place.environment));
  CHECK(io::private_directories(Config{}, {}).front().starts_with("/tmp/cpprun_"));
  Config config;
  config.logs.root = place.root;
  CHECK(io::private_directories(config, place.environment).empty());
  config.logs = {.disabled = true};
  CHECK(io::private_directories(config, place.environment).empty());
  CHECK(place.entries() == 0);
}

TEST_CASE("a log directory is created where requested, and stays") {
  const Fixture place;
  Config config;
  config.job = "job/7";
  config.logs.root = place.root / "deep" / "logs";
  std::string run;
  {
    auto directories = io::LogDir::make(config, place.environment, "");
    REQUIRE(directories.has_value());
    run = directories->run_directory();
    CHECK(directories->error_directory().empty());
  }
  CHECK(fs::path(run).parent_path() == *config.logs.root);
  CHECK(fs::path(run).filename().string().starts_with("job_7_"));
  CHECK(fs::is_directory(run));
}

TEST_CASE("redirects without --log-dir go to torchrun's directory below TMPDIR, and stay") {
  const Fixture place;
  Config config;
  config.logs.redirects.all.out = true;
  { REQUIRE(io::LogDir::make(config, place.environment, "").has_value()); }
  CHECK(place.entries() == 1);
  CHECK(
      fs::directory_iterator(place.root)->path().filename().string().starts_with("torchelastic_"));
}

TEST_CASE("a TMPDIR that does not exist on this node does not stop the start") {
  const Fixture place;
  const Environment environment{{"TMPDIR", place.root / "none"}};
  Config config;
  const auto directories = io::private_directories(config, environment);
  REQUIRE(directories.size() == 2);
  CHECK(directories[0].starts_with((place.root / "none/cpprun_").string()));
  CHECK(directories[1].starts_with("/tmp/cpprun_"));
  CHECK(io::private_directories(config, {{"TMPDIR", "/tmp"}}).size() == 1);
  CHECK(io::private_directories(config, {}).size() == 1);
  config.logs.redirects.all.out = true;
  auto logs = io::LogDir::make(config, environment, "");
  REQUIRE(logs.has_value());
  CHECK(logs->note() == "note: TMPDIR=" + (place.root / "none").string() +
                            " cannot be used (No such file or directory); cpprun uses /tmp on this "
                            "node");
  const auto made = fs::path(logs->run_directory()).parent_path();
  CHECK(made.string().starts_with("/tmp/torchelastic_"));
  fs::remove_all(made);
}

TEST_CASE("no directory is created if logs are disabled") {
  const Fixture place;
  Config config;
  config.logs.disabled = true;
  auto directories = io::LogDir::make(config, place.environment, "");
  REQUIRE(directories.has_value());
  CHECK(directories->run_directory().empty());
  CHECK(directories->error_directory().empty());
  CHECK(place.entries() == 0);
}

TEST_CASE("a file in the place of the log directory is an error that names it") {
  const Fixture place;
  Config config;
  config.logs.root = place.root / "file";
  std::ofstream(*config.logs.root) << "x";
  const auto directories = io::LogDir::make(config, place.environment, "");
  REQUIRE_FALSE(directories.has_value());
  CHECK(directories.error().reason.starts_with("--log-dir: cannot create directory \""));
}

TEST_CASE("an attempt with a used number begins with empty directories") {
  const Fixture place;
  Config config;
  config.logs.root = place.root;
  auto directories = io::LogDir::make(config, place.environment, "");
  REQUIRE(directories.has_value());
  const auto worker = directories->run_directory() + "/attempt_0/0";
  CHECK(directories->prepare({spec_in(worker)}));
  std::ofstream(worker + "/error.json") << "old";
  CHECK(directories->prepare({spec_in(worker)}));
  CHECK(fs::is_empty(worker));
}

TEST_CASE("the logs of an attempt are kept when another master restarts the numbers") {
  const Fixture place;
  Config config;
  config.logs.root = place.root;
  auto directories = io::LogDir::make(config, place.environment, "");
  REQUIRE(directories.has_value());
  const auto attempt = directories->run_directory() + "/attempt_0";
  for (const char* const words : {"first", "second", "third"}) {
    REQUIRE(directories->prepare({spec_in(attempt + "/0"), spec_in(attempt + "/1")}));
    std::ofstream(attempt + "/1/stdout.log") << words;
  }
  const auto said = [&](const std::string& directory) {
    std::string words;
    std::ifstream(directory + "/1/stdout.log") >> words;
    return words;
  };
  CHECK(said(attempt + "_before_1") == "first");
  CHECK(said(attempt + "_before_2") == "second");
  CHECK(said(attempt) == "third");
}

TEST_CASE("the last lines of a file are read from its end only") {
  const Fixture place;
  const auto path = (place.root / "stderr.log").string();
  {
    std::ofstream file(path);
    for (int i = 0; i < 100000; ++i) file << "line " << i << "\n";
  }
  const auto lines = io::read_last_lines(path);
  CHECK(lines.size() == bounds::last_lines_max);
  CHECK(lines.front() == "line 99800");
  CHECK(lines.back() == "line 99999");
  CHECK(io::read_last_lines("/nowhere").empty());
}

TEST_CASE("a small file is read whole, a large or missing one is rejected with a reason") {
  const Fixture place;
  const auto path = (place.root / "error.json").string();
  std::ofstream(path) << "{}";
  CHECK(io::read_small_file(path) == "{}");
  CHECK(io::read_small_file("/nowhere").error().reason ==
        "cannot read \"/nowhere\": No such file or directory");
  const auto large = (place.root / "large").string();
  std::ofstream(large) << std::string(bounds::error_file_bytes_max + 1, ' ');
  CHECK(io::read_small_file(large).error().reason ==
        "cannot read \"" + large + "\": it is larger than 1048576 bytes");
  // A file without a size; a bare root may not have it.
  if (::access("/dev/zero", R_OK) == 0) {
    CHECK(io::read_small_file("/dev/zero").error().reason ==
          "cannot read \"/dev/zero\": it is larger than 1048576 bytes");
  }
}

TEST_CASE("a file is replaced whole, or stays as it was, with a reason") {
  const Fixture place;
  const auto path = (place.root / "error.json").string();
  CHECK(io::write_whole_file(path, "one").has_value());
  CHECK(io::write_whole_file(path, "two").has_value());
  CHECK(io::read_small_file(path) == "two");
  CHECK(place.entries() == 1);
  const auto nowhere = (place.root / "none" / "x").string();
  CHECK(io::write_whole_file(nowhere, "x").error().reason ==
        "cannot write \"" + nowhere + "\": No such file or directory");
}

TEST_CASE("--log-keep removes the directories of all but the last attempts") {
  const Fixture place;
  Config config;
  config.logs.root = place.root;
  config.logs.attempts_kept = 3;
  auto directories = io::LogDir::make(config, place.environment, "");
  REQUIRE(directories.has_value());
  for (int i = 0; i < 10; ++i) {
    const auto attempt = directories->run_directory() + "/attempt_" + std::to_string(i);
    REQUIRE(directories->prepare({spec_in(attempt + "/0")}));
    std::ofstream(attempt + "/0/stdout.log") << i;
  }
  // When a new master reuses an attempt's name, the older directory goes first.
  REQUIRE(directories->prepare({spec_in(directories->run_directory() + "/attempt_9/0")}));
  CHECK(fs::exists(directories->run_directory() + "/attempt_8"));
  CHECK(fs::exists(directories->run_directory() + "/attempt_9_before_1"));
  CHECK(fs::is_empty(directories->run_directory() + "/attempt_9/0"));
  CHECK(std::distance(fs::directory_iterator(directories->run_directory()), {}) == 3);
}

}  // namespace log_dir_test
